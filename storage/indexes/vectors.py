"""A shard of `vectors` as an index reads it: by kind, in the order of its units."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from vitalfew.storage import files
from vitalfew.storage.indexes.faiss_types import Vectors
from vitalfew.storage.schemas import VECTOR_KINDS


@dataclass(frozen=True)
class Outline:
    """A shard of `sentences` without its texts, as numbers: the first row of every passage and its number of rows,
    int64 (passages,), and every sentence's length, int32 (sentences,), in words and punctuation marks."""

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    lengths: NDArray[np.int32]

    @classmethod
    def read(cls, path: Path) -> "Outline":
        table = files.read_table(path, columns=["position", "tokens"])
        starts = np.flatnonzero(table["position"].to_numpy() == 0)
        return cls(starts, np.diff([*starts, table.num_rows]), table["tokens"].to_numpy())

    @cached_property
    def has_context(self) -> NDArray[np.bool_]:
        """Whether a sentence has a context, (sentences,): whether its passage has another sentence."""
        return np.repeat(self.sizes > 1, self.sizes)

    def passage(self, row: int) -> int:
        """The number of the passage that a sentence is in."""
        return int(np.searchsorted(self.starts, row, side="right")) - 1


@dataclass(frozen=True)
class ShardVectors:
    """A shard of `vectors`, by kind, in the order of its units. Arrays float32 (·, d); `context_ids` int64."""

    core: Vectors
    context: Vectors
    context_ids: np.ndarray
    passage: Vectors

    @classmethod
    def read(cls, path: Path) -> "ShardVectors":
        table = files.read_table(path, mapped=True)
        vectors = table["vector"].combine_chunks()
        matrix = vectors.flatten().to_numpy().reshape(len(vectors), vectors.type.list_size)
        counts = [pc.sum(pc.equal(table["kind"], kind)).as_py() or 0 for kind in VECTOR_KINDS]
        core, context, passage = np.split(matrix, np.cumsum(counts)[:2])
        return cls(core, context, table["id"].to_numpy()[len(core) : len(core) + len(context)], passage)

    def contexts(self, sentences: Path, mode: str) -> Vectors:
        """The context vector of every sentence, float32 (sentences, d); its core if it has none."""
        outline = Outline.read(sentences)
        has_context = outline.has_context
        if mode == "exact" or len(self.context):  # or late as it once was
            ids = files.read_table(sentences, columns=["sentence_id"])["sentence_id"].to_numpy()
            if not np.array_equal(ids[has_context], self.context_ids):
                raise ValueError(f"{sentences}: context vectors do not belong to these sentences")
            contexts = self.core.copy()
            contexts[has_context] = self.context
            return contexts
        of_passages = pooled(self.core, outline.lengths, outline.starts) if mode == "pooled" else self.passage
        contexts = np.repeat(of_passages, outline.sizes, axis=0)
        contexts[~has_context] = self.core[~has_context]
        return contexts


def pooled(core: Vectors, lengths: np.ndarray, starts: np.ndarray) -> Vectors:
    """The context of mode `pooled`, float32 (passages, d): the mean of a passage's core vectors by their lengths in
    words and punctuation marks (at least one), whatever the encoder's tokens are. `starts`: its first rows."""
    weights = np.maximum(lengths, 1).astype(np.float32)[:, None]
    sums = np.add.reduceat(core * weights, starts, axis=0)
    means: Vectors = sums / np.add.reduceat(weights, starts, axis=0)
    return means
