"""One model with its tokenizer: it turns token ids into token states and vectors. A two-tower encoder (DPR) has two.

Only the matrix products use `dtype`; everything else, with pooling and the layers after it, is done in float32, which
keeps the cosine to a float32 model above 0.9995. A plain BERT is read without transformers (bert.py). The model classes
of others are imported only where weights are loaded: that takes seconds, and a driver that needs only the identity
avoids it.
"""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase
from tokenizers.normalizers import Sequence as Chain
from torch import Tensor, nn

from tasks.models import bert
from tasks.models.device import require_device
from tasks.models.files import UnsupportedModel, digests, require_safetensors
from tasks.models.recipe import Recipe, read_config, read_json

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Vectors = NDArray[np.float32]

ACTIVATIONS = {"Identity": nn.Identity, "Tanh": nn.Tanh, "ReLU": nn.ReLU, "GELU": nn.GELU, "Sigmoid": nn.Sigmoid}


class Tower:
    """A model's directory and the recipe for its use. The first use loads the weights.

    `setting`: the key that names the model, for messages.
    """

    def __init__(self, directory: Path, recipe: Recipe, device: torch.device, dtype: torch.dtype, setting: str) -> None:
        self.directory, self.recipe = directory, recipe
        self.device, self.dtype = device, dtype
        self.setting = setting
        self.folder = directory / recipe.transformer
        for folder in (self.folder, *self._layer_folders()):
            require_safetensors(folder, setting)

    def _layer_folders(self) -> list[Path]:
        return [self.directory / folder for _, folder in self.recipe.layers]

    def identity(self) -> dict[str, Any]:
        """Everything that the vectors depend on: the recipe, and the checksums of all files of the model."""
        folders = {self.directory / folder for folder in self.recipe.folders}
        return {**asdict(self.recipe), "files": digests(filter(Path.is_dir, folders), self.directory)}

    def _existing(self) -> Path:
        """The transformer's folder. Raises FileNotFoundError if this machine lacks it."""
        if not self.folder.is_dir():
            raise FileNotFoundError(
                f"{self.folder} is not there on {platform.node()}: every worker needs the model at the same path. "
                f"Put it where all of them see it, and say --set {self.setting}=/path/to/it"
            )
        return self.folder

    @cached_property
    def config(self) -> "PretrainedConfig":
        return read_config(self._existing())

    @cached_property
    def _bert(self) -> dict[str, Any] | None:
        """The configuration, if the model needs no transformers."""
        return bert.plain_bert(self._existing())

    @cached_property
    def dimension(self) -> int:
        is_dpr = self._bert is None and self.config.model_type == "dpr"
        dimension = getattr(self.config, "projection_dim", 0) if is_dpr else 0
        for folder in self._layer_folders():
            dimension = read_json(folder / "config.json").get("out_features", dimension)
        return int(dimension or self.hidden)

    @property
    def hidden(self) -> int:
        """The size of a token's state."""
        return int(self._bert["hidden_size"] if self._bert else self.config.hidden_size)

    @cached_property
    def _tokenizer(self) -> tuple[Tokenizer, int]:
        """The tokenizer as it is, and the id of its padding."""
        if own := bert.read_tokenizer(self._existing()):
            return own
        from transformers import AutoTokenizer, PreTrainedTokenizerFast

        tokenizer = AutoTokenizer.from_pretrained(self._existing(), trust_remote_code=False, local_files_only=True)
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise UnsupportedModel(f"{self.folder}: no tokenizer.json, nor a vocabulary that one can be made of")
        return tokenizer.backend_tokenizer, tokenizer.pad_token_id or 0

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer, without padding and truncation."""
        tokenizer, _ = self._tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if self.recipe.lower_case:
            tokenizer.normalizer = Chain([Lowercase(), *([tokenizer.normalizer] if tokenizer.normalizer else [])])
        return tokenizer

    @property
    def padding(self) -> int:
        """The id that pads rows; the mask excludes it."""
        return self._tokenizer[1]

    @cached_property
    def model(self) -> nn.Module:
        """The transformer alone. Raises UnsupportedModel if weights are missing."""
        return self._loaded[0]

    @cached_property
    def head(self) -> nn.Module:
        """The layers after pooling, float32."""
        return self._loaded[1]

    @cached_property
    def _loaded(self) -> tuple[nn.Module, nn.Module]:
        require_device(self.device, self.dtype)
        # One thread: the workers are the parallelism, and a result must not depend on the number of cores.
        torch.set_num_threads(1)
        # oneDNN caches a compiled kernel per batch shape; its default of 1024 kernels takes some hundred megabytes.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
        model, projection = self._read_transformer()
        # Only matrix products are done in `dtype` (autocast, in `states`, does the rest in float32): as fast as a model
        # in bf16 throughout, with half its distance from float32.
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.to(self.dtype)
        head = nn.Sequential(
            *projection, *(_read_layer(kind, self.directory / folder) for kind, folder in self.recipe.layers)
        )
        return model.to(self.device).eval(), head.to(self.device).eval()

    def _read_transformer(self) -> tuple[nn.Module, list[nn.Module]]:
        """The transformer, and the projection after pooling if its checkpoint has one."""
        # PyTorch's fused attention is slower for bf16 on CPUs (by a tenth of a whole pass, passages of SQuAD).
        eager = self.dtype != torch.float32 and self.device.type == "cpu"
        if own := bert.read_bert(self._existing(), "eager" if eager else "sdpa"):
            return own, []
        from transformers import DPRContextEncoder, DPRQuestionEncoder

        model, report = self._class().from_pretrained(
            self._existing(),
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            **({"attn_implementation": "eager"} if eager else {}),
        )
        # BERT's pooler does not affect token states, and retrieval checkpoints lack it.
        if missing := sorted(name for name in report["missing_keys"] if "pooler" not in name.split(".")):
            raise UnsupportedModel(
                f"{self.folder}: {len(missing)} weights of {type(model).__name__} are missing ({missing[0]}, …); "
                "random numbers would stand in for them. Is it another architecture than its config.json says?"
            )
        model.config.use_cache = False
        if not isinstance(model, DPRContextEncoder | DPRQuestionEncoder):
            return model, []
        dpr = getattr(model, model.base_model_prefix)
        return dpr.bert_model, [dpr.encode_proj] if dpr.projection_dim > 0 else []

    def _class(self) -> Any:
        from transformers import AutoModel, AutoModelForTextEncoding, DPRContextEncoder, DPRQuestionEncoder

        architecture = (self.config.architectures or [""])[0]
        if self.config.model_type == "dpr":  # AutoModel treats every DPR model as a question encoder
            return DPRContextEncoder if architecture == "DPRContextEncoder" else DPRQuestionEncoder
        half = self.config.is_encoder_decoder or architecture.endswith("EncoderModel")  # T5 without its decoder
        return AutoModelForTextEncoding if half else AutoModel

    def states(self, ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Token states float32 (n, longest, d) and mask float32 (n, longest). Padding is on the right."""
        model = self.model  # before any tensor, so that a worker without its GPU gets the right error
        longest = max(map(len, ids))
        padded = np.full((len(ids), longest), self.padding, dtype=np.int64)
        mask = np.zeros((len(ids), longest), dtype=np.int64)
        for row, tokens in enumerate(ids):
            padded[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        padding = torch.from_numpy(mask).to(self.device)
        half = torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32)
        with torch.inference_mode(), half:
            states = model(
                input_ids=torch.from_numpy(padded).to(self.device),
                attention_mask=None if mask.all() else padding,  # without a mask, attention has a faster path
            ).last_hidden_state
        return states.float(), padding.float()

    def zeros(self, rows: int) -> Tensor:
        """float32 (rows, hidden), on the model's device."""
        return torch.zeros((rows, self.hidden), device=next(self.model.parameters()).device)

    def vectors(self, ids: Sequence[Sequence[int]]) -> Vectors:
        """Vectors of texts given as token ids, float32 (n, d)."""
        states, mask = self.states(ids)
        return self.finish(_POOLED[self.recipe.pooling](states, mask))

    @torch.inference_mode()
    def finish(self, pooled: Tensor) -> Vectors:
        """Pooled states float32 (n, hidden) → vectors float32 (n, d), by the layers after pooling and the scaling."""
        vectors: Vectors = self.head(pooled).cpu().numpy()
        return unit_rows(vectors) if self.recipe.unit else vectors


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    return (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)


def _cls(states: Tensor, mask: Tensor) -> Tensor:
    return states[:, 0]


def _last(states: Tensor, mask: Tensor) -> Tensor:
    ends = mask.sum(1).long() - 1
    return states[torch.arange(len(states), device=states.device), ends]


def _max(states: Tensor, mask: Tensor) -> Tensor:
    return states.masked_fill(mask.unsqueeze(-1) == 0, -torch.inf).amax(1)


_POOLED = {"mean": _mean, "cls": _cls, "last": _last, "max": _max}


def _read_layer(kind: str, folder: Path) -> nn.Module:
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
        raise UnsupportedModel(f"{folder / 'config.json'}: a Dense module with a residual or on other than the vector")
    return nn.Linear(options["in_features"], options["out_features"], bias=options.get("bias", True))


def _activation(folder: Path, options: dict[str, Any]) -> nn.Module:
    name = str(options.get("activation_function", "torch.nn.modules.activation.Tanh"))
    kind = ACTIVATIONS.get(name.rpartition(".")[2])
    if kind is None or not name.startswith("torch.nn."):
        raise UnsupportedModel(
            f"{folder / 'config.json'}: activation {name} is not supported; known: {', '.join(ACTIVATIONS)}"
        )
    return kind()


def unit_rows(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; a zero row stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12, dtype=np.float32)
