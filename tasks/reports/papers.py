"""Paper and ours: what a paper prints beside what a run came to, with the claim's verdict and every deviation."""

from dataclasses import dataclass

from configs.paper import Figure, Ours, Paper, Repeated
from tasks.reports.contents import Report, Summary
from tasks.reports.shown.columns import SMALL_UNITS, figure
from tasks.reports.shown.notes import asked
from tasks.reports.statistics.paired import Difference


@dataclass(frozen=True, slots=True)
class Beside:
    """A row. `interval`: of ours, where it is a difference to the baseline; `verdict`: '' without a claim."""

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
        lines.append("The questions are a sample, and so are the figures.")
    lines += [f"The paper: {report.paper.settings}."] if report.paper.settings else []
    lines += _repeated(report).deviations
    return lines + ([report.paper.missing] if report.paper.missing else [])


def _repeated(report: Report) -> Repeated:
    repeated = report.paper.experiments.get(report.experiment) if report.paper else None
    return repeated or Repeated()


def _row(report: Report, paper: Paper, row: Figure) -> Beside:
    value, difference = _ours(report, row.ours)
    unit = report.column(row.ours.metric).unit
    low, high = (difference.low, difference.high) if difference else (None, None)
    interval = "–" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
    return Beside(
        row.what,
        "; ".join(filter(None, (row.source, row.note))),
        _text(row, paper.target(row), unit),
        _text(row, value, unit),
        interval,
        _verdict(row, paper.goal(row), value, low, high),
    )


def _ours(report: Report, ours: Ours) -> tuple[float | None, Difference | None]:
    """Our figure, and where it is a difference to the method's baseline that one, which has an interval."""
    methods = {method.name: method for method in report.methods}
    method, other = methods.get(ours.method), methods.get(ours.minus or ours.over or ours.method)
    if not method or not other:
        return None, None
    value, reference = (_value(report.measures(side).get(ours.metric)) for side in (method, other))
    if value is None or reference is None:
        return None, None
    if ours.over:
        return (value / reference if reference else None), None
    if not ours.minus:
        return value, None
    compared = method.against is not None and report.methods[method.against] is other
    return value - reference, method.differences.get(ours.metric) if compared else None


def _value(summary: Summary | None) -> float | None:
    return summary.value if summary else None


def _text(row: Figure, value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if row.ours.over:
        return f"{value:.2f} ×"
    return f"{value:+.3f}" if row.ours.minus and unit not in SMALL_UNITS else figure(value, unit)


def _verdict(row: Figure, due: float | None, value: float | None, low: float | None, high: float | None) -> str:
    """Of a claim: with an interval it may be open."""
    if due is None or value is None:
        return ""
    worst, best = (low, high) if row.claim == "at_least" else (high, low)
    sign = 1 if row.claim == "at_least" else -1
    goal = sign * due
    if sign * (value if worst is None else worst) >= goal:
        return "holds"
    if sign * (value if best is None else best) < goal:
        return "does not hold"
    return "open: the interval has both"
