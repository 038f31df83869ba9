"""A shard of `vectors` as an index reads it: by kind, in the order of its units."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from storage import files
from storage.indexes.faiss_types import Vectors
from storage.schemas import VECTOR_KINDS


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
        table = files.read_table(sentences, columns=["sentence_id", "position"])
        starts = np.flatnonzero(table["position"].to_numpy() == 0)
        sizes = np.diff([*starts, table.num_rows])
        has_context = np.repeat(sizes > 1, sizes)
        contexts = self.core.copy()
        if mode == "passage":
            contexts[has_context] = np.repeat(self.passage, sizes, axis=0)[has_context]
        else:
            if not np.array_equal(table["sentence_id"].to_numpy()[has_context], self.context_ids):
                raise ValueError(f"{sentences}: context vectors do not belong to these sentences")
            contexts[has_context] = self.context
        return contexts
