"""Answers by a judge's verdicts, and answers that say that they do not know.

**Judged correct, claims supported, preferred**: what a language model says in the table `verdicts` (the stage `judge`,
tasks/raters/verdicts.py). Correct is 1 or 0, by the gold answers; supported is the share of the answer's claims that
the contexts support. Preferred is 1 if the answer is better than the baseline's, 0 if it is worse, 0.5 for a tie, so
that the baseline itself has 0.5. A question without the verdict is left out: without a gold answer, contexts or a
claim, or with a reply that was not in form; the table says which. A judge errs: the mean is its opinion.

**Abstains**: 1 if an answer says that it does not know, else 0, by English phrases, without a model. An answer abstains
if it is empty, or one of the phrases `NOTHING` but for case and punctuation; or if its first sentence has one of the
phrases `NOT_KNOWN`, and no "but", "however" or "although" is in the answer. So "I don't know, but it may be Paris"
answers. Neither value is the better one: where there is no answer, abstaining is right.
"""

import re

from vitalfew.tasks.comparable import comparable
from vitalfew.tasks.metrics.base import (
    ANSWER,
    CONTEXTS,
    GOLD_ANSWERS,
    PREFERENCES,
    VERDICTS,
    Case,
    Column,
    PerQuestion,
    judged,
)

NOTHING = ("unknown", "unclear", "no answer", "not known", "not given", "not stated", "not mentioned", "na", "idk")
"""An answer that is one of these abstains."""
_TEXT = r"(?:contexts?|texts?|passages?|documents?|information|evidence|sources?|article)"
NOT_KNOWN = (
    r"\b(?:i|we) (?:do not|don't|cannot|can't|could not|couldn't) (?:know|say|tel+|answer|determine|find)\b",
    r"\bi(?: am|'m) (?:not sure|unsure|unable)\b",
    r"\b(?:not enough|insufficient|no) (?:\w+ )?information\b",
    r"\b(?:cannot|can't|can not|could not) be (?:answered|determined|known|inferred)\b",
    r"\b(?:is|are|was|were)(?: not|n't) (?:\w+ )?(?:mentioned|stated|specified|provided)\b",
    r"\bit is not known\b",
    rf"\b{_TEXT} (?:do|does|did)(?: not|n't) (?:\w+ )?(?:mention|say|state|contain|provide|specify|answer)\b",
    r"\bunanswerable\b",
)
"""Patterns in lower case; an answer whose first sentence has one abstains."""
_NOT_KNOWN = re.compile("|".join(NOT_KNOWN))
_ALL_THE_SAME = re.compile(r"\b(?:but|however|although)\b")


def abstains(answer: str) -> bool:
    """Decide whether an answer says that it does not know, by the rule above."""
    text = comparable(answer).lower()
    if re.sub(r"[^\w\s]", "", text).strip() in ("", *NOTHING):
        return True
    first = re.split(r"(?<=[.!?]) ", text, maxsplit=1)[0]
    return bool(_NOT_KNOWN.search(first)) and not _ALL_THE_SAME.search(text)


class JudgedCorrect(PerQuestion):
    """The share of answers that a judge calls correct, by the gold answers."""

    shown = (Column("judged_correct", "judged correct", needs=(ANSWER, GOLD_ANSWERS, VERDICTS)),)

    def row(self, case: Case) -> tuple[float | None] | None:
        return (case.verdict[0],) if case.verdict and judged(case) is not None else None


class Supported(PerQuestion):
    """The share of an answer's claims that its contexts support, as a judge sees it; no gold answer is needed."""

    shown = (Column("supported", "claims supported", needs=(ANSWER, CONTEXTS, VERDICTS)),)

    def row(self, case: Case) -> tuple[float | None] | None:
        there = case.verdict and case.contexts is not None and case.answer and not case.answer.error
        return (case.verdict[1],) if case.verdict and there else None


class Preferred(PerQuestion):
    """The share of answers that a judge prefers to the baseline's, ties as halves; no gold answer is needed."""

    shown = (Column("preferred", "preferred to the baseline", needs=(ANSWER, VERDICTS, PREFERENCES)),)

    def row(self, case: Case) -> tuple[float | None] | None:
        return (case.verdict[2],) if case.verdict and case.answer and not case.answer.error else None


class Abstains(PerQuestion):
    """The share of answers that say that they do not know, by a rule of phrases, without a model."""

    shown = (Column("abstains", "abstains", direction="neither", needs=(ANSWER,)),)

    def row(self, case: Case) -> tuple[float] | None:
        return (float(abstains(case.answer.text)),) if case.answer and not case.answer.error else None
