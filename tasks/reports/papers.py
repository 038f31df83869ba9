"""Paper and ours: the figures of a paper beside those of a run, with the claim's verdict and every deviation.

A claim names a side of no difference: above or below 0, or 1 where it is a ratio. By our 95 % interval it is

- `replicated`: all of it lies on that side, and the paper's size is within it;
- `same direction`: all of it lies on that side, and the paper's size is not within it, or the paper prints none;
- `no worse`: all of it lies above no difference less the margin that was set beforehand, if the claimed side is up (the
  other way round, if it is down). A claim of non-inferiority (Piaggio et al., Reporting of Noninferiority and
  Equivalence Randomized Trials, JAMA 308(24), 2012): without a margin two equal methods cannot be distinguished;
- `contradicted`: all of it lies on the other side, and not within the margin;
- `open` otherwise, with an estimate of how many questions would settle it.

Where the paper's figure is not on the side of its claim ("about as good", and printed a little lower), ours cannot
replicate a direction: all of it on that side is `no worse`. A single measurement has no interval: its value says the
direction, marked as one measurement, and never a size.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from vitalfew import configs
from vitalfew.configs.loading import build, read_yaml
from vitalfew.configs.section import Config
from vitalfew.tasks.reports.runs import QuestionScores
from vitalfew.tasks.reports.shown.columns import SMALL_UNITS, figure
from vitalfew.tasks.reports.shown.notes import asked
from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS, Interval, mean_interval, ratio_interval
from vitalfew.tasks.reports.statistics.paired import paired_bootstrap, questions_needed, rounded_up

if TYPE_CHECKING:
    from vitalfew.tasks.reports.contents import Report


FOLDER = Path(configs.__file__).parent / "papers"


class Ours(Config):
    """The figure of a run that corresponds to a printed one: of a method, its difference (`minus`) or its ratio."""

    method: str
    metric: str
    minus: str | None = None
    over: str | None = None

    @property
    def neutral(self) -> float | None:
        """The value that says that two methods are equal; None where there is one method."""
        return 0.0 if self.minus else 1.0 if self.over else None


class Figure(Config):
    """A figure of a paper, and the corresponding figure of a run. `source`: TABLE / ROW / COLUMN of `tables`, or the
    section; `printed`: as it is printed, or computed of printed ones, None where the paper has none.

    `unit` is that of `printed` and `margin`: '%', of which a hundredth is compared with ours (percent of a share,
    percentage points of a difference), or '', compared as it is. A `claim` is the side of no difference that the paper
    claims, and what could turn out otherwise; a figure without one is shown and counted nowhere. `margin`: how far ours
    may lie on the other side and still be no worse.
    """

    what: str
    printed: float | None = None
    source: str = ""
    unit: Literal["", "%"] = ""
    claim: Literal["higher", "lower"] | None = None
    margin: float = 0.0
    note: str = ""
    ours: Ours

    @property
    def target(self) -> float | None:
        """The paper's figure in the unit of ours, a share where percent is printed; None: it has no such figure."""
        return None if self.printed is None else self.in_our_unit(self.printed)

    def in_our_unit(self, number: float) -> float:
        return number * 0.01 if self.unit else number


class Repeated(Config):
    """The figures that an experiment repeats, and its deviations from the paper, in words."""

    figures: tuple[Figure, ...] = ()
    deviations: tuple[str, ...] = ()


class Paper(Config):
    """A paper (title, authors, where), its models, retrievers and data, and which experiment repeats what of it.

    `chosen`: questions on which the settings shared by its experiments were chosen; `missing`: what the file leaves
    out, and why; `tables`: as printed, by the name that sources refer to: for readers, and for a test.
    """

    paper: str
    settings: str = ""
    chosen: str = ""
    missing: str = ""
    tables: dict[str, Any] = Field({})
    experiments: dict[str, Repeated] = Field({})


def paper_of(experiment: str) -> Paper | None:
    """The paper that the experiment is of: configs/papers/NAME.yaml of paretorag/alpha_sweep's first part. Raises
    ConfigError where the file is malformed."""
    path = FOLDER / f"{experiment.partition('/')[0]}.yaml"
    return build(Paper, read_yaml(path)) if "/" in experiment and path.exists() else None


HEADS = ("paper", "ours", "95 % interval", "claim", "where")
LEGEND = (
    "Replicated: the interval lies on the side that the paper claims, with the paper's size in it; same direction: "
    "with another size; no worse: within a margin set beforehand; contradicted: on the other side."
)


def beside(report: "Report") -> list[tuple[str, ...]]:
    """A row for every printed figure: what it is, and the cells under `HEADS`; '–' where this run has no counterpart,
    or the figure no claim."""
    return [_row(report, printed) for printed in repeated(report.paper, report.experiment).figures]


def _row(report: "Report", printed: Figure) -> tuple[str, ...]:
    ours = report.counterparts.get(printed.ours) or _measured(report, printed.ours)
    unit = report.column(printed.ours.metric).unit
    figures = (_text(printed.ours, value, unit) for value in (printed.target, ours.mean))
    said = verdict(printed, printed.target, ours) or "–"
    where = "; ".join(filter(None, (printed.source, printed.note))) or "–"
    return printed.what, *figures, _interval(printed.ours, ours, unit), said, where


def conditions(report: "Report") -> list[str]:
    """Questions, corpus, models and deviations, which a reader of the table has to know."""
    if report.paper is None:
        return []
    corpus = "; ".join(f"{index.passages:,} passages ({index.name})" for index in report.indexes)
    lines = [f"Ours: {asked(report)}. Corpus: {corpus or 'none'}. Models: {', '.join(report.models) or 'none'}."]
    if report.asked.seed is not None:
        lines.append("The questions are a sample, so the figures are estimates.")
    if report.paper.settings:
        lines.append(f"The paper: {report.paper.settings}.")
    deviations = repeated(report.paper, report.experiment).deviations
    return [*lines, *deviations, *filter(None, (report.paper.chosen, report.paper.missing))]


def repeated(paper: Paper | None, experiment: str) -> Repeated:
    """The figures that an experiment repeats; none where it repeats no paper."""
    return (paper.experiments.get(experiment) if paper else None) or Repeated()


def _measured(report: "Report", ours: Ours) -> Interval:
    """Our figure where it is not a mean over single questions: without an interval."""
    methods = {method.name: method for method in report.methods}
    sides = [methods.get(name) for name in (ours.method, ours.minus or ours.over) if name]
    found = [report.value(side, ours.metric) if side else None for side in sides]
    values = [value for value in found if value is not None]
    if len(values) < len(sides) or (ours.over and not values[1]):
        return Interval(None, None, None, 0)
    value = values[0] / values[1] if ours.over else values[0] - sum(values[1:])
    return Interval(value, None, None, 0)


def _interval(of: Ours, ours: Interval, unit: str) -> str:
    if ours.mean is None:
        return "–"
    if ours.low is None or ours.high is None:
        return "too few questions" if ours.questions else "no interval: one measurement"
    return f"{_text(of, ours.low, unit)} to {_text(of, ours.high, unit)}"


def _text(of: Ours, value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if of.over:
        return f"{value:.2f} ×"
    return f"{value:+.3f}" if of.minus and unit not in SMALL_UNITS else figure(value, unit)


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


REPLICATED, SAME, NO_WORSE, CONTRADICTED, OPEN = VERDICTS = (
    "replicated",
    "same direction",
    "no worse",
    "contradicted",
    "open",
)
_ONCE = "one measurement"
_HALF = 1.959964
"""Half the width of a 95 % interval, in standard errors."""
_FINE = 100
"""A value nearer to a line than such a part of its interval is on it: no number of questions would settle it."""


def verdict(printed: Figure, size: float | None, ours: Interval) -> str:
    """The verdict on the claim, which begins with one of `VERDICTS`; '' without a claim or without a figure of ours.

    `size`: the paper's figure, in the unit of ours; None: it prints none. Where ours is one measurement and has no
    interval, `ours.questions` is 0.
    """
    neutral = printed.ours.neutral
    if printed.claim is None or neutral is None or ours.mean is None:
        return ""
    sign = 1 if printed.claim == "higher" else -1
    mean, claimed = sign * (ours.mean - neutral), None if size is None else sign * (size - neutral)
    margin = printed.in_our_unit(printed.margin)
    if ours.low is None or ours.high is None:
        if ours.questions:
            return f"{OPEN}: at least {MIN_QUESTIONS} questions are needed"
        said = _said(mean, mean, claimed, margin)
        return f"{SAME if said == REPLICATED else said}, {_ONCE}"
    worst, best = sorted(sign * (end - neutral) for end in (ours.low, ours.high))
    said = _said(worst, best, claimed, margin)
    return f"{said}: {_settled(mean, best - worst, margin, ours.questions)}" if said == OPEN else said


def _said(worst: float, best: float, claimed: float | None, margin: float) -> str:
    """A verdict by the ends of an interval; all are distances from no difference, positive on the paper's side."""
    if worst > 0:
        if claimed is not None and claimed <= 0:
            return NO_WORSE
        return REPLICATED if claimed is not None and worst <= claimed <= best else SAME
    if margin and worst > -margin:
        return NO_WORSE
    return CONTRADICTED if best < 0 else OPEN


def _settled(mean: float, width: float, margin: float, questions: int) -> str:
    """How many questions would settle it, if our value stays as it is; rounded up to two digits.

    They show that it is no worse, or, where it lies beyond the margin, that it is on the other side.
    """
    far = abs(mean) if mean < -margin else mean + margin
    sd = width / (2 * _HALF) * math.sqrt(questions)
    needed = questions_needed(sd, far) if far * _FINE > width else None
    if needed is None:
        return "our value is on the line"
    return f"about {rounded_up(needed):,} questions would settle it"
