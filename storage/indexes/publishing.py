"""The vectors of an index as one table, for other vector stores: a row per passage or sentence, batch by batch."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.configs.schema import Unit
from vitalfew.storage import files, generations
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.indexes.units import ShardVectors
from vitalfew.storage.runs import NamedIndex
from vitalfew.storage.schemas import list_of

BATCH = 4096
"""Rows in memory at a time, besides the mapped shard of vectors."""
_OF_PASSAGE = ("passage_id", "source", "source_id", "title", "text", "metadata")


class NothingToExport(ValueError):
    """The index lacks what is to be exported: the message says what it has."""


def export_vectors(store: Path, name: str, path: Path, unit: Unit | None = None, alpha: float = 1.0) -> dict[str, Any]:
    """Write the vectors of the generation that a name points at to a Parquet file, and return `index`, `generation`,
    `unit`, `rows`, `dimension` and `encoder`.

    Columns: `id` (int64, content id), `passage_id`, `text`, `title`, `source`, `source_id`, `metadata` (JSON),
    `generation`, `vector` (float32, a list of fixed size). `unit`: by default passages, if the index has their vectors.
    `alpha`: of sentences, the vector is alpha · core + (1 − alpha) · context (ParetoRAG, arXiv 2502.08178), whose inner
    product with a question's vector is the score at this alpha. The file is there once it is whole. Raises
    IndexNotFound, NothingToExport, Damaged.
    """
    index = generations.named(store, name)
    encode = index.config["encode"]
    units = encode["units"]
    unit = unit or ("passage" if "passage" in units else "sentence")
    if unit not in units:
        raise NothingToExport(f"index {name} has no vectors of {unit}s; it has: {', '.join(units)} (--unit)")
    if unit == "passage" and alpha != 1:
        raise NothingToExport("a passage has no context: --alpha is for --unit sentence")
    batches = _batches(index, store, unit, alpha)
    first = next(batches)
    rows = files.write_batches(path, first.schema, chain([first], batches))
    dimension = first.schema.field("vector").type.list_size
    told = {"index": name, "generation": index.generation, "unit": unit, "rows": rows, "dimension": dimension}
    return {**told, "encoder": encode["encoder"]}


def _batches(index: NamedIndex, store: Path, unit: Unit, alpha: float) -> Iterator[pa.RecordBatch]:
    corpus = index.located(store)
    for record in corpus["vectors"].completed().shards:
        vectors = ShardVectors.read(corpus["vectors"].path(record.shard))
        passages = corpus["passages"].read(record.shard, columns=[*_OF_PASSAGE])
        if unit == "passage":
            rows, matrix = passages.add_column(0, "id", passages["passage_id"]), vectors.passage
        else:
            rows, matrix = _sentences(corpus, record.shard, passages), vectors.core
            if alpha != 1:
                mode = index.config["encode"]["context"]
                contexts = vectors.contexts(corpus["sentences"].path(record.shard), mode)
                matrix = np.float32(alpha) * matrix + np.float32(1 - alpha) * contexts
        if rows.num_rows != len(matrix):
            raise files.Damaged.because(corpus["vectors"].path(record.shard), "it has not a vector for every text")
        rows = rows.append_column("generation", pa.array(np.full(rows.num_rows, index.generation, np.int32)))
        kind = list_of(pa.float32(), matrix.shape[1])
        for start in range(0, rows.num_rows, BATCH):
            part = rows.slice(start, BATCH).combine_chunks()
            flat = pa.array(np.ascontiguousarray(matrix[start : start + BATCH]).reshape(-1))
            listed = pa.FixedSizeListArray.from_arrays(flat, type=kind)
            yield from part.append_column(pa.field("vector", kind), listed).to_batches()


def _sentences(corpus: dict[str, Artifact], shard: int, passages: pa.Table) -> pa.Table:
    """The sentences of a shard with the columns of their passages."""
    own = corpus["sentences"].read(shard, columns=["sentence_id", "passage_id", "text"])
    places = pc.index_in(own["passage_id"], passages["passage_id"].combine_chunks())
    rows = passages.take(places).drop_columns(["text"])
    return rows.add_column(0, "id", own["sentence_id"]).append_column("text", own["text"])
