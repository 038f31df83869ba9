"""Paper and ours: the figures of a paper beside those of a run, with the claim's verdict and every deviation.

A verdict on a claim: it holds, does not hold, or is open, and then how many questions would settle it. A claim "at
least V" with a margin m is one of non-inferiority (Piaggio et al., Reporting of Noninferiority and Equivalence
Randomized Trials, JAMA 308(24), 2012): it holds where the whole interval lies above V − m, and does not where it lies
below. Without a margin two equal methods cannot be distinguished: "no worse" always stays open.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vitalfew.configs.paper import Figure, Ours, Paper, Repeated
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.runs import QuestionScores
from vitalfew.tasks.reports.shown.columns import SMALL_UNITS, figure
from vitalfew.tasks.reports.shown.notes import asked
from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS, Interval, mean_interval, ratio_interval
from vitalfew.tasks.reports.statistics.paired import paired_bootstrap, questions_needed


@dataclass(frozen=True, slots=True)
class Beside:
    """A row. `interval`: of ours, or the reason why there is none; `verdict`: '' without a claim."""

    what: str
    source: str
    printed: str
    ours: str
    interval: str
    verdict: str


HEADS = ("paper", "ours", "95 % interval", "claim", "where")


def beside(report: Report) -> list[Beside]:
    """A row for every printed figure; '–' where this run has no counterpart."""
    paper = report.paper
    return [_row(report, paper, printed) for printed in _repeated(report).figures] if paper else []


def conditions(report: Report) -> list[str]:
    """Questions, corpus, models and deviations, which a reader of the table has to know."""
    if report.paper is None:
        return []
    corpus = "; ".join(f"{index.passages:,} passages ({index.name})" for index in report.indexes)
    lines = [f"Ours: {asked(report)}. Corpus: {corpus or 'none'}. Models: {', '.join(report.models) or 'none'}."]
    if report.asked.seed is not None:
        lines.append("The questions are a sample, so the figures are estimates.")
    if report.paper.settings:
        lines.append(f"The paper: {report.paper.settings}.")
    return [*lines, *_repeated(report).deviations, *filter(None, (report.paper.chosen, report.paper.missing))]


def _repeated(report: Report) -> Repeated:
    repeated = report.paper.experiments.get(report.experiment) if report.paper else None
    return repeated or Repeated()


def _row(report: Report, paper: Paper, row: Figure) -> Beside:
    ours = report.counterparts.get(row.ours) or _measured(report, row.ours)
    unit = report.column(row.ours.metric).unit
    goal = paper.goal(row)
    return Beside(
        row.what,
        "; ".join(filter(None, (row.source, row.note))),
        _text(row, paper.target(row), unit),
        _text(row, ours.mean, unit),
        _interval(row, ours, unit),
        "" if row.claim is None or goal is None else verdict(row.claim, goal, row.margin * row.scale, ours),
    )


def _measured(report: Report, ours: Ours) -> Interval:
    """Our figure where it is not a mean over single questions: without an interval."""
    methods = {method.name: method for method in report.methods}
    sides = [methods.get(name) for name in (ours.method, ours.minus or ours.over) if name]
    found = [report.value(side, ours.metric) if side else None for side in sides]
    values = [value for value in found if value is not None]
    if len(values) < len(sides) or (ours.over and not values[1]):
        return Interval(None, None, None, 0)
    value = values[0] / values[1] if ours.over else values[0] - sum(values[1:])
    return Interval(value, None, None, 0)


def _interval(row: Figure, ours: Interval, unit: str) -> str:
    if ours.mean is None:
        return "–"
    if ours.low is None or ours.high is None:
        return "too few questions" if ours.questions else "no interval: one measurement"
    return f"{_text(row, ours.low, unit)} to {_text(row, ours.high, unit)}"


def _text(row: Figure, value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if row.ours.over:
        return f"{value:.2f} ×"
    return f"{value:+.3f}" if row.ours.minus and unit not in SMALL_UNITS else figure(value, unit)


def counterparts(wanted: Iterable[Ours], scores: Mapping[str, QuestionScores]) -> dict[Ours, Interval]:
    """Our figures, as far as they are means over single questions. A cost is one measurement, MAUVE is of all answers
    together: neither has an interval. `scores`: by method."""
    return {ours: interval for ours in wanted if (interval := _counterpart(ours, scores)) is not None}


def _counterpart(ours: Ours, scores: Mapping[str, QuestionScores]) -> Interval | None:
    sides = [scores.get(name) for name in (ours.method, ours.minus or ours.over) if name]
    if not sides or any(side is None or ours.metric not in side.values for side in sides):
        return None
    ids = next(side.ids for side in sides if side)
    values, *others = (side.of(ours.metric, ids) for side in sides if side)
    if ours.over:
        return ratio_interval(values, others[0])
    if ours.minus:
        [difference] = paired_bootstrap(others[0], values[np.newaxis])
        return Interval(difference.mean_difference, difference.low, difference.high, difference.questions)
    return mean_interval(values[np.newaxis])[0]


HOLDS, FAILS, OPEN = "holds", "does not hold", "open"
_HALF = 1.959964
"""Half the width of a 95 % interval, in standard errors."""
_FINE = 100
"""A value nearer to a line than such a part of its interval is on it: no number of questions would settle it."""


def verdict(claim: Literal["at_least", "at_most"], goal: float, margin: float, ours: Interval) -> str:
    """`goal`, `margin`: in the unit of ours. Where ours is one measurement and has no interval, `ours.questions` is 0,
    and its value decides."""
    sign = 1 if claim == "at_least" else -1
    if ours.mean is None:
        return ""
    if ours.low is None or ours.high is None:
        if ours.questions:
            return f"{OPEN}: at least {MIN_QUESTIONS} questions are needed"
        return HOLDS if sign * ours.mean >= sign * goal - margin else FAILS
    worst, best = sorted((sign * ours.low, sign * ours.high))
    if worst >= sign * goal - margin:
        return f"{HOLDS}, superior" if margin and worst > sign * goal else HOLDS
    if best < sign * goal - margin:
        return FAILS
    return f"{OPEN}: {_settled(ours, goal - sign * margin)}"


def _settled(ours: Interval, line: float) -> str:
    """How many questions would distinguish the value from the line, if it stays as it is; rounded up to two digits."""
    mean, low, high = (value or 0.0 for value in (ours.mean, ours.low, ours.high))
    sd = (high - low) / (2 * _HALF) * math.sqrt(ours.questions)
    far = abs(mean - line) * _FINE > high - low
    needed = questions_needed(sd, mean - line) if far else None
    if needed is None:
        return "our value is on the line"
    unit = 10 ** max(0, len(str(needed)) - 2)
    return f"about {math.ceil(needed / unit) * unit:,} questions would settle it"
