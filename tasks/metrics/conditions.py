"""Properties of a question, whatever answers it: the conditions under which a method may pay.

Words and sentences of a gold passage are those of the index, of several the mean; gold passages (those of a group
together) stand for hops. Redundancy is the mean similarity of two of the first ten hits, by the words they share
(Jaccard, The Distribution of the Flora in the Alpine Zone, New Phytologist 11(2), 1912). The overlap is the share of
the question's content words (without bm25s' stop words) that are in the sentence of a gold passage that holds an
accepted answer; of several the greatest. The rank is that of the first gold passage among the passages of the hits. The
margin is the score of the first hit less that of the second.

Redundancy, rank and margin are of the hits of the method, so that a baseline's columns say what the corpus is like. A
question is left out of what it gives no ground for: without gold passages in the index or among the hits, without a
gold sentence that holds an answer, or with fewer than two hits.
"""

import re
from functools import cache
from itertools import combinations
from math import isfinite
from statistics import fmean

from vitalfew.tasks.metrics.base import (
    GOLD_ANSWERS,
    GOLD_PASSAGES,
    GOLD_SENTENCES,
    GOLD_TEXTS,
    HITS,
    SCALE,
    Case,
    Column,
    PerQuestion,
)
from vitalfew.tasks.metrics.ranking import first_correct

MOST = 10
"""Hits whose redundancy is measured."""
_WORD = re.compile(r"\w+")
_OF_GOLD = (GOLD_PASSAGES, GOLD_SENTENCES)
_OF_ANSWER = (GOLD_ANSWERS, GOLD_PASSAGES, GOLD_TEXTS)
COLUMNS = (
    Column("gold_words", "words of a gold passage", "words", "neither", _OF_GOLD, detail=True),
    Column("gold_sentences", "sentences of a gold passage", "sentences", "neither", _OF_GOLD, detail=True),
    Column("gold_count", "gold passages", "passages", "neither", (GOLD_PASSAGES,), detail=True),
    Column("redundancy", "redundancy of the hits", SCALE, "neither", (HITS,), detail=True),
    Column("question_overlap", "question's words in the answer sentence", SCALE, "neither", _OF_ANSWER, detail=True),
    Column("gold_rank", "rank of the first gold passage", "rank", "neither", (HITS, GOLD_PASSAGES), detail=True),
    Column("margin", "margin of the first hit", "score", "neither", (HITS,), detail=True),
)


class Conditions(PerQuestion):
    """Length, number and rank of the gold passages, words that question and answer sentence share, and what the hits
    are like.

    These describe a question. The report sets differences between methods beside them."""

    version = "2"  # since 2, overlap, rank and margin

    shown = COLUMNS

    def row(self, case: Case) -> tuple[float | None, ...]:
        known = [words for words in case.gold_sentences if words]
        words, sentences = (fmean(map(measure, known)) if known else None for measure in (sum, len))
        count = float(len({*case.gold().values()})) or None
        return words, sentences, count, _redundancy(case), _overlap(case), _gold_rank(case), _margin(case)


def _redundancy(case: Case) -> float | None:
    texts = [frozenset(_WORD.findall(hit.text.lower())) for hit in (case.hits or ())[:MOST]]
    alike = [len(a & b) / len(a | b) for a, b in combinations(texts, 2) if a or b]
    return fmean(alike) if alike else None


def _overlap(case: Case) -> float | None:
    asked = _content(case.question)
    holding = [text for texts in case.gold_texts for text in texts if first_correct(case.answers, [text])]
    if not asked or not holding:
        return None
    return max(len(asked & _content(text)) for text in holding) / len(asked)


def _content(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _stop_words()


@cache
def _stop_words() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN_PLUS  # reports need the columns alone

    return frozenset(STOPWORDS_EN_PLUS)


def _gold_rank(case: Case) -> float | None:
    passages = dict.fromkeys(hit.passage_id for hit in case.hits or ())
    ranks = (rank for rank, passage in enumerate(passages, 1) if passage in case.gold_passages)
    return next(map(float, ranks), None)


def _margin(case: Case) -> float | None:
    first = [hit.score for hit in (case.hits or ())[:2]]
    return first[0] - first[1] if len(first) == 2 and all(map(isfinite, first)) else None
