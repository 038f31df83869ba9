"""What an evaluation comes to, a sentence per method: how good it is, how sure that is, and at what price."""

from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.shown.columns import LEVEL, figure, pareto_front, price_metric, quality_metric, signed
from vitalfew.tasks.reports.shown.text import shortened
from vitalfew.tasks.reports.statistics.paired import Difference

MOST = 6
"""Sentences of a report. Where more methods are compared, those on the Pareto front have one, the best first."""
_NAME = 48


def headline(report: Report) -> list[str]:
    """A sentence for every method that is compared with a baseline; none where there are too few questions."""
    quality, price = quality_metric(report), price_metric(report)
    if not quality:
        return []
    compared = [method for method in report.methods if _interval(method, quality)]
    if len(compared) > MOST:
        compared = _front(report, quality, price, compared)[:MOST]
    return [
        f"{_name(method)}: {_quality(report, method, quality)}{_price(report, method, price)}." for method in compared
    ]


def _interval(method: MethodResult, metric: str) -> bool:
    return metric in method.differences and method.differences[metric].low is not None


def _front(report: Report, quality: str, price: str | None, methods: list[MethodResult]) -> list[MethodResult]:
    sign = -1 if report.column(quality).direction == "lower" else 1
    points = [
        (_value(report, method, price) or 0.0, sign * (_value(report, method, quality) or 0.0)) for method in methods
    ]
    return [methods[place] for place in reversed(pareto_front(points))]


def _quality(report: Report, method: MethodResult, metric: str) -> str:
    column, difference = report.column(metric), method.differences[metric]
    own = figure(_value(report, method, metric), column.unit)
    interval = f"{signed(difference.low)} to {signed(difference.high)}"
    return (
        f"{column.heading} {own}, {signed(difference.mean_difference)} against {_baseline(report, method)} "
        f"({interval}{_verdict(difference)})"
    )


def _verdict(difference: Difference) -> str:
    """An interval is of one difference, p is corrected for all: the one may exclude 0 where the other exceeds LEVEL."""
    p = difference.p_holm
    if p is not None and p < LEVEL:
        return ""
    return f", not distinguishable at n = {difference.questions:,}{'' if p is None else f': corrected p = {p:.2f}'}"


def _price(report: Report, method: MethodResult, metric: str | None) -> str:
    """What it takes, and the share of what its baseline takes."""
    own = _value(report, method, metric)
    theirs = _value(report, report.methods[method.against], metric) if method.against is not None else None
    if metric is None or own is None or not theirs:
        return ""
    column = report.column(metric)
    return f"; {figure(own, column.unit)} {column.heading}, {100 * own / theirs:.0f} % of {_baseline(report, method)}'s"


def _baseline(report: Report, method: MethodResult) -> str:
    return "its baseline" if method.against is None else _name(report.methods[method.against])


def _name(method: MethodResult) -> str:
    return shortened(method.label, _NAME)


def _value(report: Report, method: MethodResult, metric: str | None) -> float | None:
    summary = report.measures(method).get(metric) if metric else None
    return summary.value if summary else None
