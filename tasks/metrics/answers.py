"""Answers against gold answers: accuracy, exact match and token F1; the best over a question's gold answers.

Texts are compared as SQuAD's evaluation script does (Rajpurkar et al., 2016, arXiv 1606.05250, section 6.1; F1 of empty
texts as in its version for SQuAD 2.0): lower case, ASCII punctuation dropped, the articles a, an and the dropped, white
space made one blank. Nothing else is equated: other scripts keep their punctuation, "7" is not "seven".

Deviation: a gold answer of which that leaves nothing ("A", "The", "-") is compared with its articles, or else with its
punctuation, as is the output; SQuAD's script gives an empty output full marks for it.

A question without gold answers, or whose generator failed, is left out. An empty answer is wrong.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

from pydantic import Field

from vitalfew.tasks.metrics.base import ANSWER, GOLD_ANSWERS, Case, Column, MetricOptions, PerQuestion, Values, judged

JUDGED = (ANSWER, GOLD_ANSWERS)
"""What every metric of an answer's correctness needs."""
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


RIGHT = 0.5
"""Two answers agree if their token F1 is at least this."""


def normalise(text: str) -> str:
    """SQuAD's normalisation, in its order: lower case, punctuation, articles, white space."""
    return _folded(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)))


def comparable(output: str, gold: str) -> tuple[str, str]:
    """Both in the same form: normalised, or less so where nothing would be left of the gold answer."""
    form = next((form for form in _FORMS if form(gold)), _folded)
    return form(output), form(gold)


def _with_articles(text: str) -> str:
    return _folded(text.translate(_PUNCTUATION))


def _folded(text: str) -> str:
    return " ".join(text.lower().split())


_FORMS = (normalise, _with_articles, _folded)


class _BestOfGold(PerQuestion):
    """A number from 0 to 1 for an output and a gold answer, the greatest over the gold answers."""

    version: ClassVar[str] = "2"  # since 2, an empty output never equals a gold answer of articles or punctuation
    column: ClassVar[Column]

    def columns(self) -> tuple[Column]:
        return (self.column,)

    def score(self, cases: Sequence[Case]) -> Values:
        return {self.column.name: [self._best(case) for case in cases]}

    def _best(self, case: Case) -> float | None:
        output = judged(case)
        if output is None:
            return None
        return max(self.match(output, *comparable(output, gold)) for gold in case.answers)

    def match(self, output: str, normalised: str, gold: str) -> float:
        """`output` as it came; both of them `comparable`."""
        raise NotImplementedError


class Accuracy(_BestOfGold):
    """1 if an output of at most `score.max_words` words contains a gold answer, else 0.

    The limit of 15 comes from ParetoRAG (section 4.1, appendix F); PFE-Self-RAG's binary match (section 6.4) has no
    limit: null. It counts the words between white space in the raw output. The output contains an answer if both are
    normalised and the answer is a run of whole words. This is stricter than comparing characters: "no" is not in "I do
    not know", nor "May" in "Mayor". A gold answer that is an article, such as the letter A of a multiple choice, counts
    where no word follows it: "The answer is A." has it, "A dog." does not. So accuracy is never below exact match for
    answers within the limit.
    """

    class Options(MetricOptions):
        max_words: int | None = Field(
            15,
            ge=1,
            description="Maximum number of words in an answer; a longer answer counts as wrong. null: no limit.",
        )

    column: ClassVar = Column("accuracy", "accuracy", needs=JUDGED)

    def match(self, output: str, normalised: str, gold: str) -> float:
        limit = self.options.max_words
        short = limit is None or len(output.split()) <= limit
        return float(short and _contains(output, normalised, gold))


def _contains(output: str, normalised: str, gold: str) -> bool:
    """An article or a sign by itself is an answer if no word follows it."""
    if normalise(gold):
        return f" {gold} " in f" {normalised} "
    alone = re.compile(rf"(?<!\w){re.escape(gold)}(?!\s*\w)")
    return normalised == gold or bool(gold and alone.search(_folded(output)))


class ExactMatch(_BestOfGold):
    """1 if the normalised output equals a normalised gold answer, else 0 (SQuAD)."""

    column: ClassVar = Column("exact_match", "exact match", needs=JUDGED)

    def match(self, output: str, normalised: str, gold: str) -> float:
        return float(normalised == gold)


class F1(_BestOfGold):
    """Harmonic mean of precision and recall of the output's words, repetitions counted (SQuAD)."""

    column: ClassVar = Column("f1", "F1", needs=JUDGED)

    def match(self, output: str, normalised: str, gold: str) -> float:
        given, due = normalised.split(), gold.split()
        if not given or not due:
            return float(given == due)
        return 2 * (Counter(given) & Counter(due)).total() / (len(given) + len(due))


def is_right(answer: str, golds: Iterable[str]) -> bool:
    """Whether an answer has a token F1 of at least `RIGHT` with a gold answer. An empty one is wrong."""
    normalised = normalise(answer)
    return bool(normalised) and any(agree(normalised, normalise(gold)) for gold in golds)


def agree(one: str, other: str) -> bool:
    """Whether two answers, normalised, have a token F1 of at least `RIGHT`."""
    return F1(F1.Options()).match(one, one, other) >= RIGHT
