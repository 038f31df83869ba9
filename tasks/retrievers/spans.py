"""`spans`: the sentences that may answer, of the best passages and the best sentences, scored by both and by words.

The first half of a method made here; the refiner `spans` is the second. The candidates of a question are
all sentences of its best passages, its best sentences, and the neighbours of these. A candidate's score is

    core · (core vector · q) + passage · (passage vector · q) + keywords · BM25 / Σ IDF

where the three weights are options, q is the question's vector, and BM25 (k1 0.9, b 0.4) is the sentence's, with its
passage's title where units are encoded with it, over the sum of the IDF of the question's words: 1 would be a sentence
that repeats the question. IDF is that of the index's BM25 where it has one, else that of the candidates. The softmax of
the scores is the probability that a sentence is the one that answers, of which the refiner makes use.

No text is encoded anew: vectors are read from the index. An index without passages gives the best sentences alone.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from vitalfew.configs.schema import Unit
from vitalfew.storage.indexes import NOTHING, TopK
from vitalfew.storage.indexes.units import SentencesAt
from vitalfew.tasks.encoders.titles import lead
from vitalfew.tasks.retrievers.base import DenseOptions, QuestionBatch, Retriever, SearchIndex
from vitalfew.tasks.retrievers.dense import CoreContext
from vitalfew.tasks.retrievers.keywords import words

K1, B = 0.9, 0.4
Rows = NDArray[np.int64]
Places = list[tuple[int, int]]
"""Table shards and rows of sentences, in order."""


class SpanRetriever(Retriever):
    """Candidates for refiner spans: all sentences of the best passages, the best sentences, and their neighbours."""

    class Options(DenseOptions):
        model_config = ConfigDict(extra="forbid")

        top_k: int = Field(200, ge=1, description="Candidates per question, at most.")
        passages: int = Field(10, ge=1, description="Best passages whose sentences are candidates.")
        sentences: int = Field(40, ge=1, description="Best sentences that are candidates, with their neighbours.")
        alpha: float = Field(0.8, ge=0, le=1, description="Weight of the core vector in choosing the best sentences.")
        core: float = Field(6, ge=0, description="Weight of the core vector's similarity in the score.")
        passage: float = Field(10, ge=0, description="Weight of the passage vector's similarity in the score.")
        keywords: float = Field(6, ge=0, description="Weight of the words that question and sentence share.")

    version: ClassVar[str] = "1"
    dense: ClassVar[bool] = True
    unit: Unit = "sentence"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        own = CoreContext.Options(alpha=options.alpha, nprobe=options.nprobe, ef_search=options.ef_search)
        self._sentences = CoreContext(own)

    def check(self, index: SearchIndex) -> None:
        self._sentences.check(index)

    def retrieve(self, questions: QuestionBatch, index: SearchIndex, k: int) -> TopK:
        best = self._sentences.retrieve(questions, index, self.options.sentences)
        whole = self._passages(questions, index)
        places = [
            _candidates(index, _row(best, number), _row(whole, number) if whole else [])
            for number in range(len(questions.texts))
        ]
        candidates = [index.sentences_at(own) if own else None for own in places]
        texts = [_labelled(own) if own else [] for own in candidates]
        read = _words(chain(*texts)) if self.options.keywords else {}
        found = []
        for number, (asked, own) in enumerate(zip(words(questions.texts), candidates, strict=True)):
            if own is None:
                found.append((np.empty(0, np.int64), np.empty(0, np.float32), places[number]))
                continue
            scores = self._by_vectors(own, questions.vectors[number])
            if self.options.keywords and asked:
                known = [read[text] for text in texts[number]]
                scores = scores + self.options.keywords * overlap(asked, known, index.document_counts(asked))
            order = np.lexsort((own.ids, -scores))
            found.append((own.ids[order], scores[order].astype(np.float32), [places[number][at] for at in order]))
        return _together(found, k)

    def _by_vectors(self, candidates: SentencesAt, question: NDArray[np.float32]) -> NDArray[np.float32]:
        weights = self.options
        scores: NDArray[np.float32] = weights.core * (candidates.core @ question)
        return scores + weights.passage * (candidates.passage @ question)

    def _passages(self, questions: QuestionBatch, index: SearchIndex) -> TopK | None:
        if "passage" not in index.searched:
            return None
        options = self.options
        return index.nearest("passage", questions.vectors, options.passages, options.nprobe, options.ef_search)


def _labelled(candidates: SentencesAt) -> list[str]:
    """The texts of sentences, with their passages' titles before them."""
    return [lead(title) + text for title, text in zip(candidates.titles, candidates.texts, strict=True)]


def _words(texts: Iterable[str]) -> dict[str, list[str]]:
    """The words of every distinct text."""
    distinct = [*dict.fromkeys(texts)]
    return dict(zip(distinct, words(distinct), strict=True))


def _row(top: TopK, place: int) -> Places:
    """Shards and rows of a question's units."""
    pairs = zip(top.shards[place].tolist(), top.rows[place].tolist(), strict=True)
    return [pair for pair in pairs if pair[1] >= 0]


def _candidates(index: SearchIndex, sentences: Places, passages: Places) -> Places:
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


def _together(found: Sequence[tuple[Rows, NDArray[np.float32], Places]], k: int) -> TopK:
    """The k best candidates of every question."""
    count = len(found)
    ids, shards, rows = (np.full((count, k), NOTHING, np.int64) for _ in range(3))
    scores = np.full((count, k), -np.inf, np.float32)
    for place, (own, figures, places) in enumerate(found):
        kept = min(k, len(places))
        ids[place, :kept], scores[place, :kept] = own[:kept], figures[:kept]
        for rank, (shard, row) in enumerate(places[:kept]):
            shards[place, rank], rows[place, rank] = shard, row
    return TopK(ids, scores, shards, rows)
