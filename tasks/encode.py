"""encode: `sentences` (or `passages`) → `vectors`, a shard at a time.

A shard of vectors holds, in this order, a `core` row per sentence in the order of its sentences shard, a `context`
row per sentence that has one, and a `passage` row per passage, so that `ShardVectors` (storage/indexes/units.py)
reads them without looking up an id. Only context mode `exact` has context rows: in `passage` and `late` the passage's
row is the context, in `pooled` it is computed from the cores.

With encode.text=titled, the title of its passage comes before every text (tasks/encoders/titles.py).

Rewritten sentences (propositions) do not join to their passage: passage vectors then come from the passages themselves,
and there is no mode `late`. A context mode that is not named is settled here, before a fingerprint is taken of it.

Preparation looks for earlier artifacts of the same encoder (tasks/encoders/reuse.py): the vector of a unit that one of
them holds, with the same title, is copied and not computed again. A separate stage, `encode_questions`, encodes
questions.
"""

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import USUAL_CONTEXT, ContextMode, EncodeConfig
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.costs import Reused
from vitalfew.storage.indexes.remembered import encoding_of
from vitalfew.tasks.encoders import reuse, titles
from vitalfew.tasks.encoders.base import Encoder, Vectors
from vitalfew.tasks.encoders.contexts import KnownVectors, UnitVectors, encode_units, identity, vector_ids
from vitalfew.tasks.encoders.on_demand import remembered
from vitalfew.tasks.models.ticks import Share
from vitalfew.tasks.registry import make
from vitalfew.tasks.stage import Progress, RowsLost, ShardResult, Stage

logger = logging.getLogger("vitalfew")

SAMPLE_UNITS = 1000
"""The number of units that estimate how much of a corpus an earlier artifact holds."""


class BadVectors(ValueError):
    """An encoder returned NaN, infinity or an undeclared shape; the message names encoder and shard."""


class Encode(Stage):
    """Stage `encode`. `units` is `sentences`, or `passages` if only whole passages are retrieved."""

    name: ClassVar[str] = "encode"
    table: ClassVar[str] = "vectors"
    section: ClassVar[str] = "encode"
    role: ClassVar[str | None] = "encoder"
    config: EncodeConfig

    def __init__(
        self, store: Path, units: Artifact, config: EncodeConfig, passages: Artifact, rewritten: bool = False
    ) -> None:
        """`passages`: of the units, or the units themselves; `rewritten`: the sentences were not cut from them."""
        self.encoder = make_encoder(config)
        self.context = _context(config, self.encoder, rewritten)
        options = config.model_copy(update={"context": self.context})
        self.num_gpus = 1.0 if self.encoder.uses_gpu else 0.0
        self.titles = passages if options.text == "titled" else None
        inputs = {units.table: units} | ({"originals": passages} if rewritten else {})
        super().__init__(store, inputs | ({"passages": passages} if self.titles else {}), options)
        self.units = units
        self.originals = passages if rewritten else None  # otherwise the joined sentences are the passages

    def method_identity(self) -> dict[str, Any]:
        own = identity(self.context, self.config.units)
        own |= {"titled": titles.identity(self._separator)} if self.config.text == "titled" else {}
        return {"encoder": self.config.encoder, **self.encoder.identity(), **own}

    @property
    def _separator(self) -> str:
        return getattr(self.encoder, "separator", titles.SEPARATOR)

    def shards(self) -> list[int]:
        return [record.shard for record in self.units.completed().shards]

    def total_rows(self) -> int:
        return self.units.completed().rows[self.units.table]

    def prepare(self, progress: Progress) -> None:
        """Choose the artifacts whose vectors are reused, once: a run that resumes after a kill reuses the same."""
        bases = reuse.candidates(self.artifact, self.description()) if self.config.reuse else []
        chosen = reuse.choose(bases, *self._sample(), len(self.shards())) if bases else []
        files.write_json(self._bases, [base.artifact.name for base in chosen])

    def _sample(self) -> tuple[dict[str, np.ndarray], list[int]]:
        """Keys of some units, and their shards: ids are hashes, so any shard is a random sample."""
        sample: dict[str, np.ndarray] = {}
        shards: list[int] = []
        for shard in self.shards():
            shards.append(shard)
            keys = self._keys(shard, *self._read(shard))
            sample = {kind: np.append(sample.get(kind, of_kind[:0]), of_kind) for kind, of_kind in keys.items()}
            if sum(map(len, sample.values())) >= SAMPLE_UNITS:
                break
        return sample, shards

    @property
    def _bases(self) -> Path:
        return self.artifact.file("reuse.json")

    def prepared(self) -> list[Path]:
        return [self._bases]

    def open(self) -> None:
        names = files.read_json(self.artifact.prepared_file(self._bases))
        found = [reuse.Base.at(Artifact(self.store, *name.split("/"))) for name in names]
        self.bases = [base for base in found if base]

    def _ids(self, ids: np.ndarray, passage_ids: np.ndarray, passages: list[list[str]]) -> dict[str, np.ndarray]:
        """The ids of the vectors to store, by kind, in the order of their rows."""
        has_context = np.array([len(sentences) > 1 for sentences in passages for _ in sentences], dtype=bool)
        every = {"core": ids, "context": ids[has_context], "passage": passage_ids}
        return vector_ids(self.context, self.config.units, every)

    def _keys(
        self, shard: int, ids: np.ndarray, passage_ids: np.ndarray, passages: list[list[str]]
    ) -> dict[str, np.ndarray]:
        """The keys by which other artifacts know the vectors to store, in the order of `_ids`."""
        if self.titles is None:
            return self._ids(ids, passage_ids, passages)
        salts = titles.salts(self._titles(shard))
        return self._ids(ids ^ np.repeat(salts, [*map(len, passages)]), passage_ids ^ salts, passages)

    def work(self, shard: int, progress: Progress) -> ShardResult:
        ids, passage_ids, passages = self._read(shard)
        due = self._ids(ids, passage_ids, passages)
        keys = self._keys(shard, ids, passage_ids, passages)
        known, took = reuse.find(self.bases, keys, shard, len(self.units.completed().shards), self.encoder.dimension)
        took += self._recall(keys, known)
        tick = Share(len(ids), progress)
        wholes = self.originals.read(shard, columns=["text"])["text"].to_pylist() if self.originals else None
        leads = [titles.lead(title, self._separator) for title in self._titles(shard)]
        vectors = encode_units(self.encoder, passages, self.context, self.config.units, tick, known, wholes, leads)
        self._check(shard, vectors)
        tick.reach(1.0)
        table = _table(self.encoder.dimension, due, vectors)
        reused = sum(int(of_kind.found.sum()) for of_kind in known.values())
        notes = {"truncated": vectors.truncated, "reused": reused}
        told = ("fidelity", "unread") if shard == self.shards()[0] else ()
        for name in filter(partial(hasattr, self.encoder), told):
            notes |= getattr(self.encoder, name)([text for own in passages for text in own])
        return ShardResult(len(ids), {"vectors": table}, tokens=vectors.tokens, notes=notes, reused=took)

    def _recall(self, keys: Mapping[str, np.ndarray], known: Mapping[str, KnownVectors]) -> Reused:
        """Add the vectors that searches have had made (on_demand.py); what they had taken."""
        took = Reused()
        memory = remembered(self.store, encoding_of(self.description()), self.encoder.dimension)
        for kind, of_kind in keys.items() if self.config.reuse else ():
            missing = np.flatnonzero(~known[kind].found)
            known[kind].vectors[missing], known[kind].found[missing], cost = memory[kind].find(of_kind[missing])
            took += cost
        return took

    def _read(self, shard: int) -> tuple[np.ndarray, np.ndarray, list[list[str]]]:
        """Ids of the units, ids of the passages, and every passage as its sentences (or as one text without any)."""
        path = self.units.path(shard)
        if self.units.table == "passages":
            table = files.read_table(path, columns=["passage_id", "text"])
            ids = table["passage_id"].to_numpy()
            return ids, ids, [[text] for text in table["text"].to_pylist()]
        table = files.read_table(path, columns=["sentence_id", "passage_id", "position", "text"])
        first = np.flatnonzero(table["position"].to_numpy() == 0)
        texts = table["text"].to_pylist()
        ends = np.append(first, len(texts))[1:]
        passages = [texts[start:end] for start, end in zip(first, ends, strict=True)]
        return table["sentence_id"].to_numpy(), table["passage_id"].to_numpy()[first], passages

    def _titles(self, shard: int) -> list[str]:
        """The passages' titles, in the passages' order; none if they are not encoded."""
        return self.titles.read(shard, columns=["title"])["title"].to_pylist() if self.titles else []

    def _check(self, shard: int, vectors: UnitVectors) -> None:
        for kind in schemas.VECTOR_KINDS:
            rows: Vectors = getattr(vectors, kind)
            where = f"encoder {self.config.encoder!r}, shard {shard} of {self.artifact.name}, {kind} vectors"
            if len(rows) and rows.shape[1] != self.encoder.dimension:
                raise BadVectors(f"{where}: the encoder returned {rows.shape[1]} numbers, not {self.encoder.dimension}")
            if faulty := int((~np.isfinite(rows)).any(1).sum()):
                raise BadVectors(f"{where}: {faulty} rows have numbers that are not finite")

    def check(self, manifest: Manifest) -> None:
        if manifest.rows_in != self.total_rows():
            raise RowsLost(f"encode read {manifest.rows_in} of {self.total_rows()} rows")


class EncodeLater(Encode):
    """Stage `encode_later`: what `encode` would do, written down. It encodes nothing: searches make the vectors that
    they need (tasks/encoders/on_demand.py)."""

    name: ClassVar[str] = "encode_later"

    prepare, prepared, open = Stage.prepare, Stage.prepared, Stage.open

    def work(self, shard: int, progress: Progress) -> ShardResult:
        (record,) = (each for each in self.units.completed().shards if each.shard == shard)
        rows = record.rows(self.units.table)
        progress(rows, 0)
        return ShardResult(rows, {"vectors": schemas.vectors(self.encoder.dimension).empty_table()})


def _context(config: EncodeConfig, encoder: Encoder, rewritten: bool) -> ContextMode:
    """The context mode: the one that is named, else USUAL_CONTEXT where it is possible, else `passage`. Raises
    ConfigError for a mode that is named and not possible."""
    if config.context not in ("late", None) or "sentence" not in config.units:
        return config.context or "passage"
    if not rewritten and encoder.supports_late:
        return config.context or USUAL_CONTEXT
    if config.context is None:
        return "passage"
    pooling = f"averages token states, but encoder {config.encoder!r} does not use mean pooling"
    place = "averages a sentence's tokens in its passage, but rewritten units (propositions) are not part of it"
    why = place if rewritten else pooling
    raise ConfigError(f"encode.context=late {why}; use --set encode.context=passage, pooled or exact")


def make_encoder(config: EncodeConfig) -> Encoder:
    """The encoder of a configuration; its first use loads the weights."""
    return make(config, "encode")


def _table(dimension: int, ids: dict[str, np.ndarray], vectors: UnitVectors) -> pa.Table:
    kinds = np.repeat(np.arange(len(ids), dtype=np.int8), [len(of_kind) for of_kind in ids.values()])
    schema = schemas.vectors(dimension)
    columns = [
        pa.array(np.concatenate(list(ids.values()))),
        pa.DictionaryArray.from_arrays(kinds, list(schemas.VECTOR_KINDS)),
        _column(schema, np.concatenate([getattr(vectors, kind) for kind in ids])),
    ]
    return pa.table(columns, schema=schema)


def _column(schema: pa.Schema, vectors: Vectors) -> pa.Array:
    """Float32 (n, d) as the column `vector`."""
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), type=schema.field("vector").type)


class EncodeQuestions(Stage):
    """Stage `encode_questions`. Indexes of one encoder share its rows, whatever their units and context modes."""

    name: ClassVar[str] = "encode_questions"
    table: ClassVar[str] = "question_vectors"
    over: ClassVar[str] = "asked"
    section: ClassVar[str] = "encode"
    role: ClassVar[str | None] = "encoder"

    def __init__(self, store: Path, asked: Artifact, config: EncodeConfig) -> None:
        self.encoder = make_encoder(config)
        super().__init__(store, {"asked": asked}, config)
        self.num_gpus = 1.0 if self.encoder.uses_gpu else 0.0

    config: EncodeConfig

    def config_identity(self) -> dict[str, Any]:
        return {}  # the encoder's identity has everything that concerns questions

    def method_identity(self) -> dict[str, Any]:
        return {"encoder": self.config.encoder, **self.encoder.identity()}

    def work(self, shard: int, progress: Progress) -> ShardResult:
        questions = self.inputs["asked"].read(shard, columns=["question_id", "text"])
        encoded = self.encoder.encode_questions(questions["text"].to_pylist())
        if not np.isfinite(encoded.vectors).all():
            raise BadVectors(
                f"encoder {self.config.encoder!r}, questions of shard {shard}: some numbers are not finite"
            )
        progress(len(questions), encoded.tokens)
        schema = schemas.question_vectors(self.encoder.dimension)
        vectors = _column(schema, np.asarray(encoded.vectors, np.float32))
        table = pa.table([questions["question_id"], vectors], schema=schema)
        return ShardResult(len(questions), {self.table: table}, tokens=encoded.tokens)
