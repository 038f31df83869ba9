"""Paper and ours: what a paper prints beside what a run came to, with the claim's verdict and every deviation."""

from dataclasses import dataclass

from vitalfew.configs.paper import Figure, Ours, Paper, Repeated
from vitalfew.tasks.reports.contents import Report, Summary
from vitalfew.tasks.reports.shown.columns import SMALL_UNITS, figure
from vitalfew.tasks.reports.shown.notes import asked
from vitalfew.tasks.reports.statistics.bootstrap import Interval
from vitalfew.tasks.reports.verdicts import verdict


@dataclass(frozen=True, slots=True)
class Beside:
    """A row. `interval`: of ours, or why it has none; `verdict`: '' without a claim."""

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
    """What has to be known to read the table: questions, corpus, models, deviations."""
    if report.paper is None:
        return []
    corpus = "; ".join(f"{index.passages:,} passages ({index.name})" for index in report.indexes)
    lines = [f"Ours: {asked(report)}. Corpus: {corpus or 'none'}. Models: {', '.join(report.models) or 'none'}."]
    if report.asked.seed is not None:
        lines.append("The questions are a sample, so the figures are estimates.")
    lines += [f"The paper: {report.paper.settings}."] if report.paper.settings else []
    repeated = _repeated(report)
    lines += [*repeated.deviations, *filter(None, [report.paper.chosen])]
    return lines + ([report.paper.missing] if report.paper.missing else [])


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
    """Our figure where it is not of single questions: of no question, as far as an interval goes."""
    methods = {method.name: method for method in report.methods}
    sides = [methods.get(name) for name in (ours.method, ours.minus or ours.over) if name]
    found = [_value(report.measures(side).get(ours.metric)) if side else None for side in sides]
    values = [value for value in found if value is not None]
    if len(values) < len(sides) or (ours.over and not values[1]):
        return Interval(None, None, None, 0)
    value = values[0] / values[1] if ours.over else values[0] - sum(values[1:])
    return Interval(value, None, None, 0)


def _value(summary: Summary | None) -> float | None:
    return summary.value if summary else None


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
