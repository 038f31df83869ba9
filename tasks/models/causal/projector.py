"""xRAG's projector, which makes a token of a language model of a text's vector, and prompts in which such tokens stand.

Two linear layers with GELU (the exact one) between them, from the vector's size to the model's, then from that to
itself (Cheng et al. 2024, arXiv 2405.13792, section 3). The published checkpoints have it among the language model's
own weights, under the names below. It is computed in float32, the authors' program takes the model's precision.

A prompt names its vectors by negative ids, -1 the first: who lays out prompts need not know that some of their tokens
are in no vocabulary, and two that begin with the same vectors still share them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from vitalfew.tasks.models.encoder.tower import Vectors
from vitalfew.tasks.models.files import UnsupportedModel

PREFIX = "projector."
NAMES = ("projector.0.weight", "projector.0.bias", "projector.2.weight", "projector.2.bias")
"""Behind the prefix."""


def require_projector(folder: Path, given: int, due: int, setting: str) -> None:
    """Raises UnsupportedModel, with the remedy, where a model's directory has no projector from vectors of `given`
    numbers to states of `due`. `setting`: the key that names the model."""
    shapes: dict[str, tuple[int, ...]] = {}
    for file, names in _files(folder).items():
        with safe_open(file, "pt") as weights:
            shapes |= {name.removeprefix(PREFIX): tuple(weights.get_slice(name).get_shape()) for name in names}
    expected = dict(zip(NAMES, ((due, given), (due,), (due, due), (due,)), strict=True))
    if odd := sorted(shapes.keys() ^ expected.keys()):
        state = "lacks the weights" if odd[0] in expected else "has also"
        raise UnsupportedModel(
            f"{folder} {state} {PREFIX}{odd[0]}: it must hold a two-layer projector, as the checkpoint of "
            f"a model trained with xRAG does; --set {setting}=xrag-7b, or the directory of one"
        )
    for name, shape in expected.items():
        if shapes[name] != shape:
            raise UnsupportedModel(
                f"{folder}: {PREFIX}{name} must be {shape} between vectors of {given} numbers and a model of "
                f"{due}, got {shapes[name]}; use the encoder that the projector was trained with"
            )


def read_projector(folder: Path) -> nn.Sequential:
    """The projector, float32."""
    weights: dict[str, Tensor] = {}
    for file, names in _files(folder).items():
        with safe_open(file, "pt") as stored:
            weights |= {name.removeprefix(f"{PREFIX}projector."): stored.get_tensor(name).float() for name in names}
    due, given = weights["0.weight"].shape
    projector = nn.Sequential(nn.Linear(given, due), nn.GELU(), nn.Linear(due, due))
    projector.load_state_dict(weights)
    return projector.eval()


def _files(folder: Path) -> dict[Path, list[str]]:
    """Files with weights of the projector, with the weights' names."""
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as weights:
            found[file] = [name for name in weights.keys() if name.startswith(PREFIX)]  # noqa: SIM118 (no mapping)
    return found


class _WithVectors(nn.Module):
    """An input embedding that has states for negative ids too: -1 is the first."""

    def __init__(self, embedding: nn.Module, states: Tensor) -> None:
        super().__init__()
        self.embedding, self.states = embedding, states

    def forward(self, ids: Tensor) -> Tensor:
        words = self.embedding(ids.clamp(min=0))
        return torch.where(ids[..., None] < 0, self.states[(-1 - ids).clamp(min=0)].to(words.dtype), words)


@contextmanager
def placed(model: Any, projector: nn.Module, vectors: Vectors) -> Iterator[None]:
    """In this context a causal model (PreTrainedModel) reads -1 - n as the n-th of the vectors, float32 (n, d)."""
    embedding = model.get_input_embeddings()
    with torch.inference_mode():
        # One by one, for the same bits whatever the others are: little work beside what made the vectors.
        states = torch.stack([projector(vector) for vector in torch.from_numpy(vectors).to(model.device)])
    model.set_input_embeddings(_WithVectors(embedding, states))
    try:
        yield
    finally:
        model.set_input_embeddings(embedding)
