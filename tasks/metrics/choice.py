"""Multiple choice and claims: which of the options an output names, and whether that is the right one.

An output is read from its beginning, as a person would mark it: a label ("B", "(B)", "B: wind", "answer: B"), else the
option whose words it contains; where it contains several, the longest of those that hold the others ("sea water" before
"water"), and where several are left, none. The options are the lines "A: its text" below a question's first one, as the
dataset `arc` writes them; a question without such lines is a claim, its options the verdicts of `pubhealth`. "not true"
and "untrue" are false.

A question without gold answers, or one of whose options none is a gold answer, is left out.
"""

import re
from collections.abc import Mapping, Sequence

from vitalfew.tasks.metrics.answers import JUDGED, normalise
from vitalfew.tasks.metrics.base import Case, Column, PerQuestion, Values, judged

VERDICTS = ("true", "false", "mixture", "unproven")
_OPTION = re.compile(r"^([A-Z]|\d{1,2}): (.+)$", re.MULTILINE)
_LABEL = re.compile(
    r"^\W*(?:(?:the )?(?:correct |best )?(?:answer|option)(?: is)?\W+)?([A-Z]|\d{1,2})(?=[).:,\]]|$)", re.IGNORECASE
)
_NEGATED = re.compile(r"\b(?:not true|isn'?t true|untrue|incorrect)\b", re.IGNORECASE)


class Choice(PerQuestion):
    """1 if the option or verdict that an answer names is the right one, else 0 (ARC, PubHealth)."""

    def columns(self) -> tuple[Column]:
        return (Column("choice", "choice", needs=JUDGED),)

    def score(self, cases: Sequence[Case]) -> Values:
        return {"choice": [self._right(case) for case in cases]}

    def _right(self, case: Case) -> float | None:
        output = judged(case)
        if output is None:
            return None
        choices = options(case.question)
        gold = {normalise(answer) for answer in case.answers}
        right = {label for label, text in choices.items() if normalise(text) in gold}
        return float(chosen(output, choices) in right) if right else None


def options(question: str) -> dict[str, str]:
    """Label → text of a question's options; of a claim, the verdicts by themselves."""
    lines = {label: text.strip() for label, text in _OPTION.findall(question)}
    return lines or {verdict: verdict for verdict in VERDICTS}


def chosen(output: str, choices: Mapping[str, str]) -> str | None:
    """The label of the option that an output names; None where it names none, or more than one."""
    stated = _LABEL.match(output.strip())
    if stated and stated[1].upper() in choices:
        return stated[1].upper()
    text = f" {normalise(_NEGATED.sub('false', output))} "
    words = {label: f" {normalise(option)} " for label, option in choices.items()}
    named = [label for label, option in words.items() if option.strip() and option in text]
    widest = [label for label in named if all(words[other] in words[label] for other in named)]
    return widest[0] if len(widest) == 1 else None
