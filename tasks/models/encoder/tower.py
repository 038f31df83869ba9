"""A model that computes token states and vectors from token ids, and the recipe for its use: what its vectors depend
on, its tokenizer, its network. A two-tower encoder (DPR) has two.

networks.py computes the states; pooling and the layers after it are always float32. PyTorch and transformers are
imported only where weights are loaded, or an unusual tokenizer or configuration is read: that takes seconds, and a
driver that needs only the identity avoids it, as does a search on a converted model.
"""

import logging
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase
from tokenizers.normalizers import Sequence as Chain

from vitalfew.tasks.models.batches import batches, computed, threads
from vitalfew.tasks.models.compiled import STEP, NotConverted, lacks_openvino
from vitalfew.tasks.models.device import DeviceName, choose_device, dtype_of, require_device
from vitalfew.tasks.models.encoder.networks import Computation, OnOpenVINO, OnTorch, Reduction, Rows, Vectors
from vitalfew.tasks.models.encoder.recipe import EncoderRecipe, read_config, read_json, read_tokenizer
from vitalfew.tasks.models.files import UnsupportedModel, digests, require_safetensors
from vitalfew.tasks.models.loading import loading, pretrained
from vitalfew.tasks.models.ticks import TextTick

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig

logger = logging.getLogger("vitalfew")

FoundT = TypeVar("FoundT")

REDUCTIONS: dict[str, Reduction] = {"cls": "first", "last": "last", "max": "max", "mean": "sum"}
"""The poolings that are computed here, by the reduction of a text's states."""


class Tower:
    """A directory with weights (safetensors) and a tokenizer, the recipe for their use, and how they are computed. The
    first use loads the weights."""

    def __init__(
        self, directory: Path, recipe: EncoderRecipe, setting: str, device: DeviceName, computation: Computation
    ) -> None:
        """`setting`: the key that names the model, for messages."""
        self.directory, self.recipe, self.setting = directory, recipe, setting
        self.folder = directory / recipe.transformer
        self.device, self.computation = device, computation
        self.at_once = 1

    def check(self) -> None:
        """Raises UnsupportedModel, FileNotFoundError where there are no weights that can be read."""
        for folder in (self.folder, *(self.directory / folder for _, folder in self.recipe.layers)):
            require_safetensors(folder, self.setting)

    def identity(self) -> dict[str, Any]:
        """Everything that the vectors depend on: the recipe, and the checksums of all files of the model."""
        folders = {self.directory / folder for folder in self.recipe.folders}
        return {**asdict(self.recipe), "files": digests(filter(Path.is_dir, folders), self.directory)}

    def _existing(self) -> Path:
        """The transformer's folder. Raises FileNotFoundError if this machine lacks it."""
        if not self.folder.is_dir():
            raise FileNotFoundError(
                f"{self.folder} is not on {platform.node()}: every worker needs the model at the same path. "
                f"Put it where all workers see it, and use --set {self.setting}=/path/to/it"
            )
        return self.folder

    @cached_property
    def config(self) -> "PretrainedConfig":
        return read_config(self._existing())

    @cached_property
    def _stated(self) -> dict[str, Any]:
        """The transformer's config.json as it is."""
        return read_json(self._existing() / "config.json")

    @cached_property
    def dimension(self) -> int:
        dimension = self.config.projection_dim if self.has_projection else 0
        for _, folder in self.recipe.layers:
            dimension = read_json(self.directory / folder / "config.json").get("out_features", dimension)
        return int(dimension or self.hidden * len(self.recipe.pooling.split("+")))

    @property
    def hidden(self) -> int:
        """The width of a token's state."""
        return int(self._stated.get("hidden_size") or self.config.hidden_size)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, without padding and truncation."""
        tokenizer = read_tokenizer(self._existing())
        if self.recipe.lower_case:
            tokenizer.normalizer = Chain([Lowercase(), *([tokenizer.normalizer] if tokenizer.normalizer else [])])
        return tokenizer

    @property
    def padding(self) -> int:
        """The id of padding."""
        return int(self._stated.get("pad_token_id") or 0)

    @property
    def has_projection(self) -> bool:
        """Return whether the transformer's files have a layer after pooling (DPR)."""
        return self._stated.get("model_type") == "dpr" and getattr(self.config, "projection_dim", 0) > 0

    def read_network(self) -> "tuple[nn.Module, list[nn.Module]]":
        """The transformer, float32, and the projection after pooling if the model has one.

        Raises UnsupportedModel if weights are missing."""
        import torch
        from transformers import DPRContextEncoder, DPRQuestionEncoder

        model = pretrained(
            self._class(),
            self._existing(),
            "random numbers would replace them. Does config.json name another architecture?",
            spare="pooler",  # BERT's does not affect token states, and retrieval checkpoints lack it
            dtype=torch.float32,
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

    @cached_property
    @loading()
    def network(self) -> Any:
        """An OnOpenVINO or an OnTorch: each reduces the states that it has made."""
        if self.computation.engine == "openvino":
            try:
                return OnOpenVINO(self, self.computation.precision, self.layers, self.at_once)
            except NotConverted as error:
                if self.computation.precision == "int8":
                    raise UnsupportedModel(
                        f"{self.directory} cannot be computed in int8, because OpenVINO does not convert it ({error}): "
                        "use --set encode.precision=auto"
                    ) from None
                logger.warning("PyTorch computes %s, because OpenVINO does not convert it: %s", self.directory, error)
        return self._on_torch()

    def _on_torch(self) -> OnTorch:
        import torch

        if self.device == "cpu" and lacks_openvino():
            logger.warning("PyTorch computes %s, because the package openvino is not installed", self.directory)
        precision = self.computation.precision
        assert precision != "int8"
        device, dtype = choose_device(self.device), dtype_of(precision)
        require_device(device, dtype)
        # One thread: the workers are the parallelism, and a result must not depend on the number of cores.
        torch.set_num_threads(1)
        # oneDNN keeps a compiled kernel per shape; its default of 1024 kernels takes some hundred megabytes.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
        return OnTorch(self, dtype, device, self.layers)

    def layers(self) -> "nn.Module":
        """Make the layers after pooling, float32."""
        from torch import nn

        projection = self.read_network()[1] if self.has_projection else []
        return nn.Sequential(*projection, *(_read_layer(self.directory, *layer) for layer in self.recipe.layers)).eval()

    def expect(self, texts: int) -> None:
        """Have as many batches computed at once as this process has cores, if there are several texts: one question
        does without, and is answered sooner."""
        if texts > 1 and self.at_once == 1 and self.computation.engine == "openvino":
            self.at_once = threads()
            if self.at_once > 1:
                vars(self).pop("network", None)

    def batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """The rows of texts of these lengths (tokens) in batches, longest first: of one padded length for OpenVINO,
        else of similar lengths."""
        return batches(lengths, self.computation.batch_tokens, STEP if self.computation.engine == "openvino" else 0)

    def computed(
        self, rows: Rows, compute: Callable[[list[int]], FoundT], share: float, tick: TextTick
    ) -> Iterator[tuple[list[int], FoundT]]:
        """Yield batches of `rows` of token ids with what `compute` makes of them, and report it; `share`: the rows'
        share of all texts."""
        lengths = [len(row) for row in rows]
        whole = max(1, sum(lengths))
        due = [*self.batches(lengths)]
        loaded = "network" in vars(self)
        for batch, found in zip(due, computed(compute, due, self.at_once, loaded), strict=True):
            yield batch, found
            done = sum(lengths[row] for row in batch)
            tick(done, share * done / whole)

    def sums(self, ids: Rows, lengths: Sequence[int]) -> Vectors:
        """The sums of the states of runs of tokens, which follow one another; `lengths`: of the runs (tokens)."""
        return self.network.reduced(self.network.states(ids), lengths, "sum")

    def vectors(self, ids: Rows) -> Vectors:
        """Vectors of texts given as token ids, float32 (n, d)."""
        states = self.network.states(ids)
        lengths, pooling = [len(tokens) for tokens in ids], self.recipe.pooling
        if pooling not in REDUCTIONS:
            return self.finish(_pooled(pooling, states, lengths))
        pooled = self.network.reduced(states, lengths, REDUCTIONS[pooling])
        return self.finish(pooled / np.array(lengths, np.float32)[:, None] if pooling == "mean" else pooled)

    def finish(self, pooled: Vectors) -> Vectors:
        """Pooled states float32 (n, hidden) → vectors float32 (n, d), by the layers after pooling and the scaling."""
        vectors = self.network.finished(pooled)
        return unit_rows(vectors) if self.recipe.unit else vectors


def _pooled(pooling: str, states: Any, lengths: Sequence[int]) -> Vectors:
    """Pool in the rarer modes by sentence-transformers, text by text. float32 (texts, hidden · modes)."""
    import torch
    from sentence_transformers.sentence_transformer.modules import Pooling

    pool = Pooling(states.shape[1], pooling.split("+"))
    found = []
    for text in torch.as_tensor(states).split(list(lengths)):
        mask = torch.ones((1, len(text)), dtype=torch.int64, device=text.device)
        found.append(pool({"token_embeddings": text[None], "attention_mask": mask})["sentence_embedding"])
    return torch.cat(found).cpu().numpy()


def unit_rows(vectors: Vectors) -> Vectors:
    """Rows (·, d) scaled to length 1; a zero row stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12, dtype=np.float32)


def _read_layer(directory: Path, kind: str, folder: str) -> "nn.Module":
    """Load a module after pooling, from vectors to vectors, with sentence-transformers, which only such models import.
    Raises UnsupportedModel for what that library accepts, but does not compute as it is stated."""
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import LayerNorm
    from torch import Tensor, nn

    place = directory / folder / "config.json"
    options = read_json(place)
    activation = str(options.get("activation_function", "torch.nn.Tanh"))
    if not activation.startswith("torch.nn."):  # which the library would replace by Tanh
        raise UnsupportedModel(f"{place}: activation {activation} is not supported; it must be a class of torch.nn")
    if {options.get(key) for key in ("module_input_name", "module_output_name")} - {None, "sentence_embedding"}:
        raise UnsupportedModel(f"{place}: a Dense module on anything but the vector is not supported")
    try:
        kinds: dict[str, Any] = {"Dense": Dense, "LayerNorm": LayerNorm}
        module = kinds[kind].load(str(directory), subfolder=folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, AttributeError, ImportError) as error:
        raise UnsupportedModel(f"{place}: activation {activation} is not supported: {error}") from None

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, vectors: Tensor) -> Tensor:
            return self.module({"sentence_embedding": vectors})["sentence_embedding"]

    return Layer()
