"""Properties of a question, whatever answers it: the conditions under which a method may pay.

Words and sentences of a gold passage are those of the index, of several gold passages the mean: what shorter units can
leave out of a prompt. Gold passages (those of a group together) stand for hops. Redundancy is the mean similarity of
two of the first ten hits, by the words they share (Jaccard, The Distribution of the Flora in the Alpine Zone, New
Phytologist 11(2), 1912); it is of the hits of the method, so that a baseline's column says what the corpus repeats.

A question is left out of what it gives no ground for: without gold passages in the index, or with fewer than two hits.
"""

import re
from itertools import combinations
from statistics import fmean

from vitalfew.tasks.metrics.base import GOLD_PASSAGES, GOLD_SENTENCES, HITS, SCALE, Case, Column, PerQuestion

MOST = 10
"""Hits whose redundancy is measured."""
_WORD = re.compile(r"\w+")
_OF_GOLD = (GOLD_PASSAGES, GOLD_SENTENCES)
COLUMNS = (
    Column("gold_words", "words of a gold passage", "words", "neither", _OF_GOLD, detail=True),
    Column("gold_sentences", "sentences of a gold passage", "sentences", "neither", _OF_GOLD, detail=True),
    Column("gold_count", "gold passages", "passages", "neither", (GOLD_PASSAGES,), detail=True),
    Column("redundancy", "redundancy of the hits", SCALE, "neither", (HITS,), detail=True),
)


class Conditions(PerQuestion):
    """Words and sentences per gold passage, gold passages, and how much the first ten hits repeat one another.

    These describe a question. The report sets differences between methods beside them."""

    shown = COLUMNS

    def row(self, case: Case) -> tuple[float | None, ...]:
        known = [words for words in case.gold_sentences if words]
        words, sentences = (fmean(map(measure, known)) if known else None for measure in (sum, len))
        return words, sentences, float(len({*case.gold().values()})) or None, _redundancy(case)


def _redundancy(case: Case) -> float | None:
    texts = [frozenset(_WORD.findall(hit.text.lower())) for hit in (case.hits or ())[:MOST]]
    alike = [len(a & b) / len(a | b) for a, b in combinations(texts, 2) if a or b]
    return fmean(alike) if alike else None
