"""Retrieval by words: BM25 (`bm25`), and its fusion with a dense ranking (`hybrid`).

`bm25`: keyword retrieval (Robertson & Zaragoza, The Probabilistic Relevance Framework, 2009), in Lucene's form. Its
words are those of Lucene's English analysis, as Anserini and Pyserini have it by default: runs of letters and digits of
the comparable form (tasks/comparable.py), folded by case, Lucene's 33 English stop words left out, Porter's stemmer
(Porter, 1980) or another one of Snowball, with the stop words that bm25s has of its language. A run of a script without
blanks (Chinese, Japanese, Korean, Thai, Lao, Khmer, Burmese) gives its pairs of neighbours, as in Lucene's CJK
analysis. Deviations: an apostrophe always ends a word ("don't" is "don" and "t"), where Lucene strips only a possessive
"'s"; a text of stop words alone keeps them, so that "To be, or not to be" is found.

`hybrid`: reciprocal rank fusion (Cormack, Clarke & Büttcher, SIGIR 2009) of a dense and a BM25 ranking. score(unit) =
Σ 1 / (60 + rank) over the rankings that it is in, rank from 1, every ranking at least 100 deep. The paper fuses
whole rankings; what stands deeper than that here would add less than 1/160. Equal scores: the smaller id.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from runpy import run_path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from vitalfew.configs.schema import RetrieveConfig, Stemmer, Unit
from vitalfew.storage.indexes import NOTHING, TopK
from vitalfew.storage.indexes.bm25_shards import Words
from vitalfew.storage.indexes.opened import OpenedIndex
from vitalfew.tasks.comparable import comparable
from vitalfew.tasks.retrievers.base import QuestionBatch, Retriever, Scored, top_of
from vitalfew.tasks.retrievers.dense import CoreContext, PassageRetriever
from vitalfew.tasks.splitters.tokens import terms

VERSION = "2"  # since 2, words of the comparable form, pairs in scripts without blanks, and stop words by themselves


def has_keyword(text: str, stemmer: Stemmer = "porter") -> bool:
    """Return whether a text has a word that is no stop word."""
    return not {*terms(comparable(text).casefold())} <= _stops(stemmer)


def _stops(stemmer: Stemmer) -> frozenset[str]:
    """The stop words of a stemmer's language; none where bm25s has none."""
    language = "EN" if stemmer in ("porter", "english") else stemmer.upper()
    return frozenset(_of_bm25s().get(f"STOPWORDS_{language}", ()))


@cache
def _of_bm25s() -> dict[str, Any]:
    """The lists of bm25s.stopwords, which is read alone: the package imports SciPy, which a search does without."""
    (folder,) = find_spec("bm25s").submodule_search_locations  # type: ignore[union-attr, misc]
    return run_path(str(Path(folder, "stopwords.py")))


def words(texts: Sequence[str], stemmer: Stemmer = "porter") -> list[list[str]]:
    """The words of every text, in order, repetitions included. `stemmer`: `bm25.stemmer`."""
    found = numbered(texts, stemmer)
    every = iter([found.distinct[number] for number in found.numbers.tolist()])
    return [[*islice(every, length)] for length in found.lengths.tolist()]


def numbered(texts: Iterable[str], stemmer: Stemmer = "porter") -> Words:
    """As `words`, for many texts: a distinct word is looked at once."""
    import Stemmer

    stem = Stemmer.Stemmer(stemmer).stemWords if stemmer != "none" else list
    found, lengths = list[str](), list[int]()
    for text in texts:
        own = terms(comparable(text).casefold())
        found += own
        lengths.append(len(own))
    distinct, numbers = _numbers(found)
    owners, stops = np.repeat(np.arange(len(lengths)), lengths), _stops(stemmer)
    kept = ~np.array([word in stops for word in distinct], bool)[numbers]
    kept |= (np.bincount(owners[kept], minlength=len(lengths)) == 0)[owners]  # a text of stop words alone keeps them
    used, places = np.unique(numbers[kept], return_inverse=True)
    stems, of_used = _numbers(stem([distinct[number] for number in used.tolist()]))
    return Words(stems, of_used[places], np.bincount(owners[kept], minlength=len(lengths)))


def _numbers(every: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct ones of some words, and the place in these of every word."""
    distinct = [*dict.fromkeys(every)]
    places = dict(zip(distinct, range(len(distinct)), strict=True))
    return distinct, np.fromiter(map(places.__getitem__, every), np.int64, len(every))


class BM25(Retriever):
    """Keyword search: sentences (or passages: retrieve.unit) by BM25, on an index built with bm25.enabled."""

    class Options(RetrieveConfig, extra="forbid"):
        unit: Unit = Field("sentence", description="Unit to search.")

    keywords: ClassVar[bool] = True
    sharpness: ClassVar[float | None] = 1.0

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.unit = options.unit

    def retrieve(self, questions: QuestionBatch, index: OpenedIndex, k: int) -> TopK:
        return index.matching(self.unit, words(questions.texts, index.stemmer), k)


CONSTANT = 60
DEPTH = 100


class Hybrid(Retriever):
    """Reciprocal rank fusion of bm25 with core_context, or with passage if retrieve.unit is passage.

    Its scores are made of ranks alone, and have no scale of their own."""

    class Options(CoreContext.Options, BM25.Options, extra="forbid"):
        pass

    dense: ClassVar[bool] = True
    keywords: ClassVar[bool] = True

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.unit = options.unit
        by_vectors = CoreContext(options) if self.unit == "sentence" else PassageRetriever(options)
        self.rankings: list[Retriever] = [by_vectors, BM25(options)]

    def check(self, index: OpenedIndex) -> None:
        for ranking in self.rankings:
            ranking.check(index)

    def retrieve(self, questions: QuestionBatch, index: OpenedIndex, k: int) -> TopK:
        depth = max(DEPTH, k)
        return fused([ranking.retrieve(questions, index, depth) for ranking in self.rankings], k)


def fused(rankings: Sequence[TopK], k: int) -> TopK:
    """Reciprocal rank fusion: the k best units of all rankings, which are of the same questions."""
    return top_of([_fused_one(rankings, question) for question in range(len(rankings[0].ids))], k)


def _fused_one(rankings: Sequence[TopK], question: int) -> list[Scored]:
    """Score and (id, shard, row) of every unit in the rankings of one question, best first."""
    terms: dict[tuple[int, int, int], list[float]] = {}
    for top in rankings:
        columns = (column[question].tolist() for column in (top.ids, top.shards, top.rows))
        units = [place for place in zip(*columns, strict=True) if place[0] != NOTHING]
        for rank, place in enumerate(units, 1):
            terms.setdefault(place, []).append(1 / (CONSTANT + rank))
    # Exact sums, so that the order of the rankings plays no part.
    scores = ((math.fsum(parts), place) for place, parts in terms.items())
    return sorted(scores, key=lambda unit: (-unit[0], unit[1][0]))
