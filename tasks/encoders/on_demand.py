"""Vectors of the passages that a question asks for, of an index that was made with encode.vectors=later.

A passage is encoded as `encode` would encode it, with all its sentences where its context mode is `late` and else with
those units that are asked for. What was encoded is remembered in the store (storage/indexes/remembered.py), by the keys
that `encode` reuses vectors by (reuse.py): searches, evaluations, servers and a later `vitalfew index --encode all`
find it there, and no passage is encoded twice by one encoder.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalfew.configs.schema import Unit
from vitalfew.storage.costs import Reused
from vitalfew.storage.files import NotWritten
from vitalfew.storage.indexes import Rows, Vectors
from vitalfew.storage.indexes.opened import OpenedIndex
from vitalfew.storage.indexes.remembered import Remembered, encoding_of
from vitalfew.storage.indexes.units import Outline, ShardVectors, numbers_of
from vitalfew.storage.schemas import VECTOR_KINDS
from vitalfew.tasks.encoders import titles
from vitalfew.tasks.encoders.base import Encoder
from vitalfew.tasks.encoders.contexts import KnownVectors, UnitVectors, encode_units, is_late, vector_ids
from vitalfew.tasks.models.loading import clock, cpu_clock
from vitalfew.tasks.models.ticks import no_tick

logger = logging.getLogger("vitalfew")

Places = Sequence[tuple[int, int]]
"""Table shards and rows."""


@dataclass
class Spent:
    """What vectors took: passages that were `encoded`, of so many `tokens`, and passages that were `remembered`, with
    what these had taken. A vector counts once, however many questions ask for it and however often a retriever does."""

    encoded: int = 0
    remembered: int = 0
    tokens: int = 0
    reused: Reused = field(default_factory=Reused)
    counted: dict[str, set[int]] = field(default_factory=lambda: {kind: set() for kind in VECTOR_KINDS})

    def count(self, kind: str, keys: Rows) -> NDArray[np.bool_]:
        """Which keys were not counted before, bool (n,); from now on they are."""
        counted, own = self.counted[kind], keys.tolist()
        fresh = np.array([key not in counted for key in own], bool)
        counted.update(own)
        return fresh


@dataclass(frozen=True)
class PassageVectors:
    """Vectors of some passages, float32 (·, d): `passage`, a row per passage; `core` and `context`, a row per sentence,
    passage by passage, as `outline` says; empty where sentences were not asked for. `ids`: of the sentences, int64, and
    `rows`: in their table shards."""

    passage: Vectors
    core: Vectors
    context: Vectors
    outline: Outline
    ids: Rows
    rows: Rows

    def sentences(self, numbers: Rows) -> Rows:
        """The places of the sentences of some passages, which are given by number."""
        starts, sizes = self.outline.starts[numbers], self.outline.sizes[numbers]
        own = (start + np.arange(size) for start, size in zip(starts, sizes, strict=True))
        return np.concatenate([numbers[:0], *own])


def remembered(store: Any, encoding: str, dimension: int) -> dict[str, Remembered]:
    """The remembered vectors of an encoding, by kind."""
    return {kind: Remembered(store, encoding, kind, dimension) for kind in VECTOR_KINDS}


class OnDemand:
    """The vectors of an index's passages."""

    def __init__(self, index: OpenedIndex, encoder: Encoder) -> None:
        self.index, self.units, self.encoder = index, index.units, encoder
        self.mode = index.encoding.context or "passage"
        self._spent: Spent | None = None

    @cached_property
    def memory(self) -> Mapping[str, Remembered]:
        made = self.index.manifests["vectors"]
        about = {"config": made.config, "method": made.method, "version": made.version}
        return remembered(self.index.artifacts["vectors"].store, encoding_of(about), self.encoder.dimension)

    @contextmanager
    def spending(self) -> Iterator[Spent]:
        """Yield what the vectors take meanwhile. Else nothing is noted, so that a server's memory does not grow."""
        self._spent = spent = Spent()
        try:
            yield spent
        finally:
            self._spent = None

    def of(self, places: Places, units: Sequence[Unit]) -> PassageVectors:
        """The vectors of passages, by table shard and row, each of them once."""
        shards, numbers = (np.array(column, np.int64) for column in zip(*places, strict=True))
        outline, rows = self._outline(places, "sentence" in units)
        of_rows = np.repeat(shards, outline.sizes)
        ids, passage_ids = self.ids("sentence", of_rows, rows), self.ids("passage", shards, numbers)
        wanted = {"core": ids, "context": ids[outline.has_context], "passage": passage_ids}
        salts, leads = self._titles(shards, numbers)
        own = np.repeat(np.arange(len(places)), outline.sizes)
        owners = {"core": own, "context": own[outline.has_context], "passage": np.arange(len(places))}
        due = vector_ids(self.mode, units, wanted)
        known, missing, took = dict[str, KnownVectors](), np.zeros(len(places), bool), Reused()
        fresh = np.zeros(len(places), bool)
        for kind, of_kind in due.items():
            owner = owners[kind][: len(of_kind)]
            keys = of_kind ^ salts[owner]
            counted = self._spent.count(kind, keys) if self._spent else None
            vectors, found, cost = self.memory[kind].find(keys, counted)
            missing[owner[~found]], took = True, took + cost
            if counted is not None:
                fresh[owner[counted]] = True
            known[kind] = KnownVectors(found, vectors)
        if self._spent:
            self._spent.remembered += int((fresh & ~missing).sum())
            self._spent.reused += took
        if missing.any():
            made = self._encode(np.flatnonzero(missing), shards, numbers, units, salts, leads)
            for kind, of_kind in due.items():
                if len(of_kind):
                    known[kind].vectors[missing[owners[kind]]] = getattr(made, kind)
        core, context, passage = (known[kind].vectors for kind in VECTOR_KINDS)
        if len(core):
            context = ShardVectors(core, context, passage).of_sentences(outline, self.mode)
        return PassageVectors(passage, core, context, outline, ids, rows)

    def _outline(self, places: Places, sentences: bool) -> tuple[Outline, Rows]:
        """The passages as ranges of their sentences, and the sentences' rows in their table shards; of passages alone
        without any."""
        if not sentences:
            nothing = np.zeros(0, np.int64)
            none = np.zeros(len(places), np.int64)
            return Outline(none, none, np.zeros(0, np.int32)), nothing
        outlines = [self.units.outline(shard) for shard, _ in places]
        sizes = np.array([each.sizes[row] for each, (_, row) in zip(outlines, places, strict=True)], np.int64)
        of_each = [
            each.starts[row] + np.arange(each.sizes[row]) for each, (_, row) in zip(outlines, places, strict=True)
        ]
        lengths = np.concatenate([each.lengths[own] for each, own in zip(outlines, of_each, strict=True)])
        return Outline(np.cumsum([0, *sizes[:-1]]), sizes, lengths), np.concatenate(of_each)

    def ids(self, unit: Unit, shards: Rows, rows: Rows) -> Rows:
        """The ids of units by table shard and row."""
        ids = np.empty(len(rows), np.int64)
        for shard in np.unique(shards):
            here = shards == shard
            ids[here] = self.units.ids(unit, int(shard))[rows[here]]
        return ids

    def _titles(self, shards: Rows, rows: Rows) -> tuple[Rows, list[str]]:
        """By passage, the salt of its title, and what comes before its texts; nothing where titles are not encoded."""
        if self.index.encoding.text != "titled":
            return np.zeros(len(rows), np.int64), [""] * len(rows)
        named = self.units.take("passages", shards, rows, ["title"])["title"].to_pylist()
        separator = getattr(self.encoder, "separator", titles.SEPARATOR)
        return titles.salts(named), [titles.lead(title, separator) for title in named]

    def _encode(
        self, chosen: Rows, shards: Rows, numbers: Rows, units: Sequence[Unit], salts: Rows, leads: Sequence[str]
    ) -> UnitVectors:
        """Encode the chosen ones of some passages, and remember their vectors."""
        units = self.index.encoding.units if is_late(self.mode, self.index.encoding.units) else units
        places = [(int(shards[number]), int(numbers[number])) for number in chosen]
        outline, rows = self._outline(places, "sentence" in units)
        of_rows = np.repeat(shards[chosen], outline.sizes)
        wholes = None
        if "sentence" in units:
            table = self.units.take("sentences", of_rows, rows, ["sentence_id", "text"])
            ids, texts = numbers_of(table["sentence_id"]), table["text"].to_pylist()
            passages = [texts[first : first + size] for first, size in zip(outline.starts, outline.sizes, strict=True)]
        if "sentence" not in units or "originals" in self.index.manifests["vectors"].inputs:
            wholes = self.units.take("passages", shards[chosen], numbers[chosen], ["text"])["text"].to_pylist()
        if "sentence" not in units:
            ids, passages = np.zeros(0, np.int64), [[text] for text in wholes or ()]
        began, cpu = clock(), cpu_clock()
        own_leads = [leads[number] for number in chosen]
        made = encode_units(self.encoder, passages, self.mode, units, no_tick, None, wholes, own_leads)
        took = Reused(made.tokens, clock() - began, cpu_clock() - cpu)
        own_salts = np.repeat(salts[chosen], outline.sizes)
        wanted = {
            "core": ids ^ own_salts,
            "context": (ids ^ own_salts)[outline.has_context],
            "passage": self.ids("passage", shards[chosen], numbers[chosen]) ^ salts[chosen],
        }
        keys = vector_ids(self.mode, units, wanted)
        whose = "passage" if len(keys["passage"]) else "core"  # what is looked up with every unit has the cost
        if self._spent:
            self._spent.encoded += len(chosen)
            self._spent.tokens += made.tokens
            for kind, of_kind in keys.items():
                self._spent.count(kind, of_kind)
        try:
            for kind, of_kind in keys.items():
                self.memory[kind].add(of_kind, getattr(made, kind), took * float(kind == whose))
        except NotWritten as error:
            logger.warning("vectors are not remembered, and will be computed again: %s", error)
        return made
