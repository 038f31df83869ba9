"""The layers that a model of sentence-transformers has after pooling: dense, with an activation, and norms."""

from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import nn

from vitalfew.tasks.models.encoder.recipe import read_json
from vitalfew.tasks.models.files import UnsupportedModel

ACTIVATIONS = {"Identity": nn.Identity, "Tanh": nn.Tanh, "ReLU": nn.ReLU, "GELU": nn.GELU, "Sigmoid": nn.Sigmoid}


def read_layer(kind: str, folder: Path) -> nn.Module:
    """A module of sentence-transformers, from its config.json and model.safetensors."""
    options = read_json(folder / "config.json")
    layer = nn.Sequential()
    if kind == "LayerNorm":
        layer.add_module("norm", nn.LayerNorm(options["dimension"]))
    else:
        layer.add_module("linear", _linear(folder, options))
        layer.add_module("activation", _activation(folder, options))
    layer.load_state_dict(load_file(folder / "model.safetensors"))
    return layer


def _linear(folder: Path, options: dict[str, Any]) -> nn.Module:
    names = {options.get(key) for key in ("module_input_name", "module_output_name")}
    if options.get("use_residual") or names - {None, "sentence_embedding"}:
        raise UnsupportedModel(
            f"{folder / 'config.json'}: a Dense module with a residual, or on anything but the vector, is not supported"
        )
    return nn.Linear(options["in_features"], options["out_features"], bias=options.get("bias", True))


def _activation(folder: Path, options: dict[str, Any]) -> nn.Module:
    name = str(options.get("activation_function", "torch.nn.modules.activation.Tanh"))
    kind = ACTIVATIONS.get(name.rpartition(".")[2])
    if kind is None or not name.startswith("torch.nn."):
        raise UnsupportedModel(
            f"{folder / 'config.json'}: activation {name} is not supported; known: {', '.join(ACTIVATIONS)}"
        )
    return kind()
