"""Multiple choice and claims: which of the options an output names, and whether that is the right one.

An output is read as a person would mark it: by the label that it begins with ("B", "**(B)**", "B: wind", "B is right"),
else the one label that it calls the answer ("I think the answer is B."), else the option whose words it contains; where
it contains several, the longest of those that hold the others ("sea water" before "water"), and where several are left,
none. The options are the lines "A: its text" below a question's first one, as the
dataset `arc` writes them; a question without such lines is a claim, its options the verdicts of `pubhealth`. "not true"
and "untrue" are false. A gold answer is an option's text, or its label alone.

A question without gold answers, or one of whose options none is a gold answer, is left out.
"""

import re
from collections.abc import Mapping, Sequence

from vitalfew.tasks.metrics.answers import JUDGED, comparable, normalise
from vitalfew.tasks.metrics.base import Case, Column, PerQuestion, Values, judged

VERDICTS = ("true", "false", "mixture", "unproven")
_OPTION = re.compile(r"^([A-Z]|\d{1,2}): (.+)$", re.MULTILINE)
_AFTER = r"\s*(?:[)(\],;!*\"”]|[.:,](?!\d)|-+\s|[–—]|\n|$)| is (?:the )?(?:correct|right|best|answer)\b"
_LABEL = rf"([A-Z]|\d{{1,2}})(?={_AFTER})"
_FIRST = re.compile(r"^\W*(?:(?:the )?(?:correct |best )?(?:answer|option)(?: is)?\W+)?" + _LABEL, re.IGNORECASE)
_STATED = re.compile(r"\banswer(?: is)?\W+(?:option )?" + _LABEL, re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:not true|isn'?t true|untrue|incorrect)\b", re.IGNORECASE)


class Choice(PerQuestion):
    """1 if the option or verdict that an answer names is the right one, else 0 (ARC, PubHealth)."""

    version = "2"  # since 2, also "the answer is B" anywhere, and gold answers that are labels

    def columns(self) -> tuple[Column]:
        return (Column("choice", "choice", needs=JUDGED),)

    def score(self, cases: Sequence[Case]) -> Values:
        return {"choice": [self._right(case) for case in cases]}

    def _right(self, case: Case) -> float | None:
        output = judged(case)
        if output is None:
            return None
        choices = options(case.question)
        right = gold_labels(case.answers, choices)
        return float(chosen(output, choices) in right) if right else None


def gold_labels(answers: Sequence[str], choices: Mapping[str, str]) -> set[str]:
    """The labels of the options that gold answers are, by their texts, or else by their labels."""
    right = {label for label, text in choices.items() if any(one == gold for one, gold in _pairs(text, answers))}
    return right or {*choices} & {answer.strip() for answer in answers}


def _pairs(text: str, answers: Sequence[str]) -> list[tuple[str, str]]:
    return [comparable(text, answer) for answer in answers]


def options(question: str) -> dict[str, str]:
    """Label → text of a question's options; of a claim, the verdicts by themselves."""
    lines = {label: text.strip() for label, text in _OPTION.findall(question)}
    return lines or {verdict: verdict for verdict in VERDICTS}


def chosen(output: str, choices: Mapping[str, str]) -> str | None:
    """The label of the option that an output names; None where it names none, or more than one."""
    if label := _label(output.strip(), choices):
        return label
    text = f" {normalise(_NEGATED.sub('false', output))} "
    words = {label: f" {normalise(option)} " for label, option in choices.items()}
    named = [label for label, option in words.items() if option.strip() and option in text]
    widest = [label for label in named if all(words[other] in words[label] for other in named)]
    return widest[0] if len(widest) == 1 else None


def _label(output: str, choices: Mapping[str, str]) -> str | None:
    first = _FIRST.match(output)
    if first and first[1].upper() in choices:
        return first[1].upper()
    stated = {label.upper() for label in _STATED.findall(output)} & {*choices}
    return stated.pop() if len(stated) == 1 else None
