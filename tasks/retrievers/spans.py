"""`spans`: the sentences that may answer, of the best passages and the best sentences, scored by both and by words.

The first half of a method made here; the refiner `spans` is the second. The candidates of a question are
all sentences of its best passages, its best sentences, and the neighbours of these. A candidate's score is

    core · (core vector · q) + passage · (passage vector · q) + keywords · BM25 / Σ IDF

where the three weights are options, q is the question's vector, and BM25 (k1 0.9, b 0.4) is the sentence's, with its
passage's title where units are encoded with it, over the sum of the IDF of the question's words: 1 would be a sentence
that repeats the question. IDF is that of the index's BM25 where it has one, else that of the candidates. The softmax of
the scores is the probability that a sentence is the one that answers, of which the refiner makes use.

With `hops` 2, for questions whose answer is in another passage than what they name, the question is asked again
with its three best candidates, one at a time: encoded once more with the candidate after it, and with the candidate's
names that the question lacks (words with a capital or a digit) in place of the question's words for BM25. Candidates of
this second hop come in the same way, and by those names where the index has BM25; those in the passage of the first
count for nothing. With b over the three, by their probabilities among themselves, a sentence's score is

    log (p(sentence | question) + Σ p(b) · p(sentence | question, b))

so the refiner's stop needs both hops to be sure: its softmax of this is the mean of the two probabilities.

No text of the corpus is encoded again: vectors are read from the index. An index without passages gives the best
sentences alone.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from vitalfew.configs.schema import ALPHA, Stemmer, Unit
from vitalfew.storage.indexes import TopK
from vitalfew.storage.indexes.opened import OpenedIndex
from vitalfew.storage.indexes.units import SentencesAt
from vitalfew.tasks.encoders.titles import lead
from vitalfew.tasks.refiners.spans import softmax
from vitalfew.tasks.retrievers.base import DenseOptions, QuestionBatch, Retriever, Scored, top_of
from vitalfew.tasks.retrievers.dense import CoreContext
from vitalfew.tasks.retrievers.keywords import words

K1, B = 0.9, 0.4
LINKS = 3
"""Candidates of the first hop with which the question is asked again."""
NAMED = 20
"""Sentences with a link's names that are candidates, with their neighbours."""
NAME = re.compile(r"\b[A-Z0-9][\w'-]*")
LEAST = 1e-30
"""A probability whose logarithm is finite."""
Rows = NDArray[np.int64]
Places = list[tuple[int, int]]
"""Table shards and rows of sentences, in order."""


class SpanRetriever(Retriever):
    """Candidates for refiner spans: all sentences of the best passages, the best sentences, and their neighbours."""

    class Options(DenseOptions, extra="forbid"):
        top_k: int = Field(200, ge=1, description="Candidates per question, at most.")
        passages: int = Field(10, ge=1, description="Best passages whose sentences are candidates.")
        sentences: int = Field(40, ge=1, description="Best sentences that are candidates, with their neighbours.")
        alpha: float = Field(ALPHA, ge=0, le=1, description="Weight of the core vector in choosing the best sentences.")
        core: float = Field(6, ge=0, description="Weight of the core vector's similarity in the score.")
        passage: float = Field(10, ge=0, description="Weight of the passage vector's similarity in the score.")
        keywords: float = Field(6, ge=0, description="Weight of the words that question and sentence share.")
        hops: int = Field(
            1,
            ge=1,
            le=2,
            description="2 for questions that need two passages. The question is searched again with each of its "
            "three best candidates, and the passages found that way are added.",
        )

    version: ClassVar[str] = "2"  # since 2, keywords of the comparable form
    dense: ClassVar[bool] = True
    sharpness: ClassVar[float | None] = 1.0
    unit: Unit = "sentence"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        own = CoreContext.Options(alpha=options.alpha, nprobe=options.nprobe, ef_search=options.ef_search)
        self._sentences = CoreContext(own)

    def check(self, index: OpenedIndex) -> None:
        self._sentences.check(index)

    def retrieve(self, questions: QuestionBatch, index: OpenedIndex, k: int) -> TopK:
        pools = self._pools(questions, words(questions.texts, index.stemmer), index)
        if self.options.hops > 1:
            pools = self._further(questions, pools, index)
        return top_of([pool.best() for pool in pools], k)

    def _pools(
        self, questions: QuestionBatch, asked: Sequence[Sequence[str]], index: OpenedIndex, more: Sequence[Places] = ()
    ) -> "list[_Pool]":
        """The candidates of every question with their scores. `asked`: the words of every question; `more`: further
        candidates."""
        best = self._sentences.retrieve(questions, index, self.options.sentences)
        whole = self._passages(questions, index)
        places = [
            _candidates(index, _row(best, number), _row(whole, number) if whole else [])
            for number in range(len(questions.texts))
        ]
        places = [[*dict.fromkeys([*own, *(more[number] if more else ())])] for number, own in enumerate(places)]
        candidates = [index.sentences_at(own) if own else None for own in places]
        texts = [_labelled(own) if own else [] for own in candidates]
        read = _words(chain(*texts), index.stemmer) if self.options.keywords else {}
        pools = []
        for number, (terms, own) in enumerate(zip(asked, candidates, strict=True)):
            if own is None:
                pools.append(_Pool([], np.empty(0, np.int64), np.empty(0, np.float32), []))
                continue
            question, weights = questions.vectors[number], self.options
            scores = weights.core * (own.core @ question) + weights.passage * (own.passage @ question)
            if weights.keywords and terms:
                known = [read[text] for text in texts[number]]
                scores = scores + weights.keywords * overlap(terms, known, index.document_counts(terms))
            pools.append(_Pool(places[number], own.ids, scores, texts[number]))
        return pools

    def _further(self, questions: QuestionBatch, first: "Sequence[_Pool]", index: OpenedIndex) -> "list[_Pool]":
        """The candidates of both hops, scored by the logarithm of the mean of their probabilities."""
        links = [(number, *link) for number, pool in enumerate(first) for link in pool.links()]
        if not links:
            return [*first]
        texts = [f"{questions.texts[number]} {first[number].texts[at]}" for number, at, _ in links]
        names = [_names(first[number].texts[at], questions.texts[number], index.stemmer) for number, at, _ in links]
        more = [first[number].places for number, _, _ in links]
        if index.document_counts([]) is not None:
            found = index.matching("sentence", names, NAMED)
            more = [[*own, *_candidates(index, _row(found, place), [])] for place, own in enumerate(more)]
        second = self._pools(QuestionBatch(texts, questions.encode), names, index, more)
        mixed = [_Mixture(pool) for pool in first]
        for (number, at, weight), pool in zip(links, second, strict=True):
            mixed[number].add(pool, weight, _elsewhere(index, pool.places, first[number].places[at]))
        return [each.pool() for each in mixed]

    def _passages(self, questions: QuestionBatch, index: OpenedIndex) -> TopK | None:
        if "passage" not in index.searched:
            return None
        efforts = self.options.nprobe, self.options.ef_search
        return index.nearest("passage", questions.vectors, self.options.passages, *efforts, questions.texts)


@dataclass(frozen=True)
class _Pool:
    """A question's candidates: their places, ids int64 (n,), scores (n,) and texts with titles."""

    places: Places
    ids: Rows
    scores: NDArray[Any]
    texts: list[str]

    def best(self) -> list[Scored]:
        """The candidates, best first."""
        order = np.lexsort((self.ids, -self.scores)).tolist()
        return [(float(self.scores[at]), (int(self.ids[at]), *self.places[at])) for at in order]

    def links(self) -> list[tuple[int, float]]:
        """The likeliest candidates by their numbers, with their probabilities among themselves."""
        order = np.lexsort((self.ids, -self.scores))[:LINKS]
        return [*zip(order.tolist(), softmax(self.scores[order].astype(float)).tolist(), strict=True)]


class _Mixture:
    """The candidates of several pools of a question, with their probabilities."""

    def __init__(self, first: _Pool) -> None:
        self.known = dict[tuple[int, int], list[Any]]()
        self.add(first, 1.0, np.ones(len(first.places), bool))

    def add(self, pool: _Pool, weight: float, allowed: NDArray[np.bool_]) -> None:
        """Add the probabilities of a pool's allowed candidates, times a weight."""
        chosen = np.flatnonzero(allowed)
        for at, p in zip(chosen.tolist(), softmax(pool.scores[chosen].astype(float)).tolist(), strict=True):
            known = self.known.setdefault(pool.places[at], [pool.ids[at], pool.texts[at], 0.0])
            known[2] += weight * p

    def pool(self) -> _Pool:
        known = [*self.known.values()]
        scores = np.log(np.maximum([p for _, _, p in known], LEAST)) if known else np.empty(0)
        return _Pool(
            [*self.known], np.array([each for each, _, _ in known], np.int64), scores, [t for _, t, _ in known]
        )


def _names(text: str, question: str, stemmer: Stemmer) -> list[str]:
    """The words with a capital or a digit of a text that the question lacks, as BM25 has them."""
    written, asked = words([" ".join(NAME.findall(text)), question], stemmer)
    return [word for word in dict.fromkeys(written) if word not in asked]


def _elsewhere(index: OpenedIndex, places: Places, link: tuple[int, int]) -> NDArray[np.bool_]:
    """True for places that are not in the passage of a link, (n,)."""
    passage = index.outline(link[0]).passage(link[1])
    return np.array([shard != link[0] or index.outline(shard).passage(row) != passage for shard, row in places], bool)


def _labelled(candidates: SentencesAt) -> list[str]:
    """The texts of sentences, with their passages' titles before them."""
    return [lead(title) + text for title, text in zip(candidates.titles, candidates.texts, strict=True)]


def _words(texts: Iterable[str], stemmer: Stemmer) -> dict[str, list[str]]:
    """The words of every distinct text."""
    distinct = [*dict.fromkeys(texts)]
    return dict(zip(distinct, words(distinct, stemmer), strict=True))


def _row(top: TopK, place: int) -> Places:
    """Shards and rows of a question's units."""
    pairs = zip(top.shards[place].tolist(), top.rows[place].tolist(), strict=True)
    return [pair for pair in pairs if pair[1] >= 0]


def _candidates(index: OpenedIndex, sentences: Places, passages: Places) -> Places:
    """The sentences of the passages, and these sentences with their neighbours in their passages."""
    chosen: dict[tuple[int, int], None] = {}
    for shard, row in passages:
        outline = index.outline(shard)
        first = int(outline.starts[row])
        chosen |= dict.fromkeys((shard, first + number) for number in range(int(outline.sizes[row])))
    for shard, row in sentences:
        outline = index.outline(shard)
        passage = outline.passage(row)
        first, size = int(outline.starts[passage]), int(outline.sizes[passage])
        chosen |= dict.fromkeys((shard, each) for each in range(max(first, row - 1), min(first + size, row + 2)))
    return [*chosen]


def overlap(asked: Sequence[str], texts: Sequence[Sequence[str]], known: tuple[int, dict[str, int]] | None) -> Rows:
    """BM25 of texts, given as their words, over the sum of the IDF of the question's words, float64 (texts,).

    `known`: the corpus's number of units, and by word of the question how many have it; None: those of the texts."""
    terms = [*dict.fromkeys(asked)]
    counts = [Counter(text) for text in texts]
    units, documents = known or (len(texts), {term: sum(term in own for own in counts) for term in terms})
    idf = {term: math.log(1 + (units - documents[term] + 0.5) / (documents[term] + 0.5)) for term in terms}
    mean = sum(map(len, texts)) / len(texts) or 1.0
    whole = sum(idf.values()) or 1.0

    def score(own: Counter[str], length: int) -> float:
        damping = K1 * (1 - B + B * length / mean)
        return sum(idf[term] * own[term] * (K1 + 1) / (own[term] + damping) for term in terms if term in own) / whole

    return np.array([score(own, len(text)) for own, text in zip(counts, texts, strict=True)])
