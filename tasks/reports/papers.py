"""Paper and ours: what a paper prints beside what a run came to, with the claim's verdict and every deviation."""

from dataclasses import dataclass

from configs.paper import Figure, Ours, Repeated
from tasks.reports.contents import Report, Summary
from tasks.reports.shown.columns import UNITS, figure
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
    """A row for each printed figure; '–' where this run has no counterpart."""
    return [_row(report, each) for each in _repeated(report).figures]


def conditions(report: Report) -> list[str]:
    """What has to be known to read the table: questions, corpus, models, deviations."""
    if report.paper is None:
        return []
    corpus = "; ".join(f"{each.passages:,} passages ({each.name})" for each in report.indexes)
    lines = [f"Ours: {asked(report)}. Corpus: {corpus or 'none'}. Models: {', '.join(report.models) or 'none'}."]
    if report.asked.seed is not None:
        lines.append("The questions are a sample, and so are the figures.")
    lines += [f"The paper: {report.paper.settings}."] if report.paper.settings else []
    lines += _repeated(report).deviations
    return lines + ([report.paper.missing] if report.paper.missing else [])


def _repeated(report: Report) -> Repeated:
    found = report.paper.experiments.get(report.experiment) if report.paper else None
    return found or Repeated()


def _row(report: Report, each: Figure) -> Beside:
    value, difference = _ours(report, each.ours)
    low, high = (difference.low, difference.high) if difference else (None, None)
    interval = "–" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
    return Beside(
        each.what,
        each.source,
        _text(each, each.printed),
        _text(each, value),
        interval,
        _verdict(each, value, low, high),
    )


def _ours(report: Report, ours: Ours) -> tuple[float | None, Difference | None]:
    """Our figure, and where it is a difference to the method's baseline that one, which has an interval."""
    methods = {method.name: method for method in report.methods}
    method, other = methods.get(ours.method), methods.get(ours.minus or ours.over or ours.method)
    if not method or not other:
        return None, None
    value, reference = (_value(report.measures(each).get(ours.metric)) for each in (method, other))
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


def _text(each: Figure, value: float | None) -> str:
    if value is None:
        return "–"
    if each.ours.over:
        return f"{value:.2f} ×"
    name = each.ours.metric.partition("@")[0]
    return f"{value:+.3f}" if each.ours.minus and name not in UNITS else figure(each.ours.metric, value)


def _verdict(each: Figure, value: float | None, low: float | None, high: float | None) -> str:
    """Of a claim: with an interval it may be open."""
    if each.claim is None or each.printed is None or value is None:
        return ""
    worst, best = (low, high) if each.claim == "at_least" else (high, low)
    sign = 1 if each.claim == "at_least" else -1
    goal = sign * each.printed
    if sign * (value if worst is None else worst) >= goal:
        return "holds"
    if sign * (value if best is None else best) < goal:
        return "does not hold"
    return "open: the interval has both"
