"""A model that computes token states and vectors from token ids. A two-tower encoder (DPR) has two.

kernels.py computes the states; pooling and the layers after it are always float32.
"""

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.device import require_device
from vitalfew.tasks.models.encoder.checkpoint import Checkpoint
from vitalfew.tasks.models.encoder.kernels import Computation, Kernels, load
from vitalfew.tasks.models.encoder.recipe import EncoderRecipe, read_json
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.loading import loading
from vitalfew.tasks.models.ticks import TextTick

Vectors = NDArray[np.float32]


class Tower(Checkpoint):
    """A checkpoint and how it is computed. The first use loads the weights."""

    def __init__(
        self, directory: Path, recipe: EncoderRecipe, setting: str, device: torch.device, computation: Computation
    ) -> None:
        super().__init__(directory, recipe, setting)
        self.device, self.computation = device, computation

    @cached_property
    @loading()
    def _loaded(self) -> tuple[Kernels, nn.Module]:
        require_device(self.device, self.computation.dtype)
        # One thread: the workers are the parallelism, and a result must not depend on the number of cores.
        torch.set_num_threads(1)
        # oneDNN keeps a compiled kernel per shape; its default of 1024 kernels takes some hundred megabytes.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
        kernels, projection = load(self, self.device, self.computation)
        layers = [_read_layer(self.directory, kind, folder) for kind, folder in self.recipe.layers]
        return kernels, nn.Sequential(*projection, *layers).to(self.device).eval()

    @property
    def head(self) -> nn.Module:
        """The layers after pooling, float32."""
        return self._loaded[1]

    def batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """The rows of texts of these lengths (tokens) in batches of similar length, longest first."""
        return batches(lengths, self.computation.batch_tokens, padded=self.computation.kernels != "packed")

    def reported(self, rows: Sequence[Sequence[int]], share: float, tick: TextTick) -> Iterator[list[int]]:
        """Yield `rows` of token ids in such batches, and report every batch once it is computed; `share`: the rows'
        share of all texts."""
        lengths = [len(row) for row in rows]
        for batch in self.batches(lengths):
            yield batch
            done = sum(lengths[row] for row in batch)
            tick(done, share * done / sum(lengths))

    def states(self, ids: Sequence[Sequence[int]]) -> Tensor:
        """float32 (tokens, hidden): the states of all tokens, text after text, without padding."""
        return self._loaded[0](ids)

    def vectors(self, ids: Sequence[Sequence[int]]) -> Vectors:
        """Vectors of texts given as token ids, float32 (n, d)."""
        states = self.states(ids)
        lengths = torch.tensor([len(tokens) for tokens in ids], device=states.device)
        return self.finish(_pooled(self.recipe.pooling, states, lengths))

    @torch.inference_mode()
    def finish(self, pooled: Tensor) -> Vectors:
        """Pooled states float32 (n, hidden) → vectors float32 (n, d), by the layers after pooling and the scaling."""
        vectors: Vectors = self.head(pooled).cpu().numpy()
        return unit_rows(vectors) if self.recipe.unit else vectors


def _pooled(pooling: str, states: Tensor, lengths: Tensor) -> Tensor:
    """float32 (texts, hidden), from the states of all tokens (tokens, hidden)."""
    if pooling in ("cls", "last"):
        return states[lengths.cumsum(0) - (lengths if pooling == "cls" else 1)]
    if pooling in ("mean", "max"):
        return torch.segment_reduce(states, pooling, lengths=lengths)
    from sentence_transformers.sentence_transformer.modules import Pooling

    texts = states.split(lengths.tolist())
    masks = [torch.ones(len(text), dtype=torch.int64, device=states.device) for text in texts]
    features = {
        "token_embeddings": pad_sequence(texts, batch_first=True),
        "attention_mask": pad_sequence(masks, batch_first=True),
    }
    vectors: Tensor = Pooling(states.shape[1], pooling.split("+"))(features)["sentence_embedding"]
    return vectors


def unit_rows(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; a zero row stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12, dtype=np.float32)


class _Layer(nn.Module):
    """A module of sentence-transformers, from vectors to vectors."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, vectors: Tensor) -> Tensor:
        found: Tensor = self.module({"sentence_embedding": vectors})["sentence_embedding"]
        return found


def _read_layer(directory: Path, kind: str, folder: str) -> nn.Module:
    """Load a module after pooling with sentence-transformers, which only such models import. Raises UnsupportedModel
    for what that library accepts, but does not compute as it is stated."""
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import LayerNorm

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
    return _Layer(module)
