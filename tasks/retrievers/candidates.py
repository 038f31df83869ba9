"""Search by vectors among candidates: an index that was made with encode.vectors=later.

Its keywords find the best passages for a question (BM25; by their best sentences where it has no passages as units),
the encoder makes the vectors of these, and they alone are compared with the question. All scores are what they are in
an index with all vectors, ParetoRAG's and those of spans too: only units of other passages are missing.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from vitalfew.configs.schema import CANDIDATES, Unit
from vitalfew.storage.indexes import TopK, Vectors
from vitalfew.storage.indexes.opened import OpenedIndex
from vitalfew.storage.indexes.units import SentencesAt, numbers_of
from vitalfew.tasks.encoders.on_demand import OnDemand, PassageVectors, Places
from vitalfew.tasks.retrievers.base import Scored, top_of
from vitalfew.tasks.retrievers.keywords import words

SENTENCES = 4
"""Sentences that are asked for to find one passage, where passages are no units."""


class CandidateIndex(OpenedIndex):
    """An index as searches by vectors see it: `passages` candidates per question, whose vectors are made on demand."""

    def __init__(self, index: OpenedIndex, vectors: OnDemand, passages: int = CANDIDATES) -> None:
        vars(self).update(vars(index))
        self.on_demand, self.passages = vectors, passages
        self._views = {}

    def nearest(
        self,
        unit: Unit,
        queries: Vectors,
        k: int,
        nprobe: int | None = None,
        ef_search: int | None = None,
        texts: Sequence[str] = (),
    ) -> TopK:
        candidates = self.candidates(texts)
        every = [*dict.fromkeys(place for own in candidates for place in own)]
        if not every:
            return top_of([[] for _ in texts], k)
        known = self.on_demand.of(every, [unit])
        number = {place: at for at, place in enumerate(every)}
        best = [
            [*self._scored(unit, query, known, [(place, number[place]) for place in own], k)]
            for query, own in zip(queries, candidates, strict=True)
        ]
        return top_of(best, k)

    def candidates(self, texts: Sequence[str]) -> list[Places]:
        """The passages to compare with every question, by table shard and row."""
        asked = words(texts, self.stemmer)
        if "passage" in self.encoding.units:
            top = self.matching("passage", asked, self.passages)
            return [
                [(shard, row) for shard, row in zip(*own, strict=True) if row >= 0]
                for own in zip(top.shards.tolist(), top.rows.tolist(), strict=True)
            ]
        top = self.matching("sentence", asked, SENTENCES * self.passages)
        found: list[Places] = []
        for shards, rows in zip(top.shards.tolist(), top.rows.tolist(), strict=True):
            of = ((s, self.outline(s).passage(r)) for s, r in zip(shards, rows, strict=True) if r >= 0)
            found.append([*dict.fromkeys(of)][: self.passages])
        return found

    def _scored(
        self, unit: Unit, query: Vectors, known: PassageVectors, own: Sequence[tuple[tuple[int, int], int]], k: int
    ) -> Iterator[Scored]:
        """The k best units of some passages, which are given by place and number, for a question; best first."""
        numbers = np.array([number for _, number in own], np.int64)
        shards = np.array([shard for (shard, _), _ in own], np.int64)
        rows = np.array([row for (_, row), _ in own], np.int64)
        if unit == "passage":
            ids = self.on_demand.ids("passage", shards, rows)
            scores = known.passage[numbers] @ query
        else:
            shards = np.repeat(shards, known.outline.sizes[numbers])
            at = known.sentences(numbers)
            ids, rows, half = known.ids[at], known.rows[at], known.core.shape[1]
            scores = known.core[at] @ query[:half]
            scores = scores + known.context[at] @ query[half:] if len(query) > half else scores
        for place in np.lexsort((ids, -scores))[:k].tolist():
            yield float(scores[place]), (int(ids[place]), int(shards[place]), int(rows[place]))

    def vectors(self, unit: Unit, places: Places) -> tuple[Vectors, Vectors | None]:
        """The vectors of units by table shard and row, float32 (n, d), and those of their contexts: None for
        passages."""
        if unit == "passage":
            return self.on_demand.of(places, ["passage"]).passage, None
        known, at = self._of_sentences(places, ["sentence"])
        return known.core[at], known.context[at]

    def _of_sentences(self, places: Places, units: Sequence[Unit]) -> tuple[PassageVectors, np.ndarray]:
        """The vectors of the passages of some sentences, and the sentences' rows in them."""
        owners = [(shard, self.outline(shard).passage(row)) for shard, row in places]
        every = [*dict.fromkeys(owners)]
        known, number = self.on_demand.of(every, units), {place: at for at, place in enumerate(every)}
        firsts = [int(self.outline(shard).starts[passage]) for shard, passage in owners]
        at = [
            int(known.outline.starts[number[owner]]) + row - first
            for owner, first, (_, row) in zip(owners, firsts, places, strict=True)
        ]
        return known, np.array(at, np.int64)

    def sentences_at(self, places: Places) -> SentencesAt:
        known, at = self._of_sentences(places, self.encoding.units)
        shards, rows = (np.array(column, np.int64) for column in zip(*places, strict=True))
        table = self.units.take("sentences", shards, rows, ["sentence_id", "text"])
        owners = np.array([self.outline(shard).passage(row) for shard, row in places], np.int64)
        named = [""] * len(places)
        if self.encoding.text == "titled":
            named = self.units.take("passages", shards, owners, ["title"])["title"].to_pylist()
        core = known.core[at]
        own = np.searchsorted(known.outline.starts, at, side="right") - 1
        whole = known.passage[own] if "passage" in self.searched else np.zeros_like(core)
        return SentencesAt(numbers_of(table["sentence_id"]), core, whole, table["text"].to_pylist(), named)

    def similarities(self, unit: Unit, places: Places, question: Vectors) -> list[tuple[float, float | None]]:
        if not places:
            return []
        own, contexts = self.vectors(unit, places)
        alone = [contexts is None or not self.outline(shard).has_context[row] for shard, row in places]
        return [
            (float(vector @ question), None if is_alone or contexts is None else float(contexts[at] @ question))
            for at, (vector, is_alone) in enumerate(zip(own, alone, strict=True))
        ]
