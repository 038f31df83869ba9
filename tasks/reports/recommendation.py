"""The sentence that a report begins with: which method to take, by what was shown and by what it costs.

A method is shown to be better or worse than its baseline where the paired test of the primary metric says so after
Holm's correction (`columns.is_apart`). Any other is not shown to be worse, which does not make it as good: the sentence
says how much worse it may be, by the far end of its 95 % interval, and how many more questions would detect a
difference.

The number of questions that detect a true difference of `SIZE` in four runs of five (80 % power) is
n = ((z_0.975 + z_0.8) · sd / 0.05)² (Cohen, Statistical Power Analysis, 1988, chapter 2; `paired.questions_needed`),
with the largest standard deviation of the sample's paired differences: it is as uncertain as that.
"""

from collections.abc import Sequence

from vitalfew.tasks.metrics.base import SCALE
from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.shown.columns import figure, is_apart, price_metric, quality_metric, signed
from vitalfew.tasks.reports.shown.text import listed, shortened
from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS
from vitalfew.tasks.reports.statistics.paired import Difference, questions_needed

SIZE = 0.05
"""The difference that the sentence counts questions for."""
_NAME = 48


def recommendation(report: Report) -> str:
    """A sentence or two, on one line; '' for a report without methods."""
    if not report.methods:
        return ""
    metric = quality_metric(report)
    if metric is None or report.column(metric).direction not in ("higher", "lower"):
        return "Nothing is recommended: no method has a score that says which is better."
    heading = report.column(metric).heading
    if not report.baselines():
        return _alone(report, heading)
    known = [own for own in report.methods if metric in own.differences]
    compared = [own for own in known if own.differences[metric].p_holm is not None]
    if not compared:
        return _too_few([own.differences[metric] for own in known], report, heading)
    better = [own for own in compared if _gain(report, own, metric) > 0 and is_apart(own.differences[metric])]
    if better:
        return _better(report, better, metric)
    worse = [own for own in compared if is_apart(own.differences[metric])]
    if len(worse) == len(compared):
        every = "every other method is" if len(worse) > 1 else f"{_name(worse[0])} is"
        return f"Stay with {_base(report)}: {every} shown to be worse in {heading}."
    return _not_worse(report, compared, worse, metric)


def _alone(report: Report, heading: str) -> str:
    if len(report.methods) == 1:
        return f"Nothing is recommended: {_name(report.methods[0])} is the only method, compared with none."
    return (
        f"Nothing is recommended: every method is a baseline, so none is compared in {heading}. "
        "Set `baseline` to one of them."
    )


def _too_few(differences: Sequence[Difference], report: Report, heading: str) -> str:
    """Say what to do where no difference has an interval. `differences`: those with any question."""
    if not differences:
        return f"Nothing is recommended: no question has a value of {heading} for a method and for its baseline."
    asked = max((each.questions for each in differences), default=0)
    sd = max((each.sd or 0.0 for each in differences), default=0.0)
    start = f"Nothing can be recommended yet: {asked:,} {_questions(asked)} with a value of {heading}"
    needed = questions_needed(sd, SIZE) if sd and report.column(quality_metric(report) or "").unit == SCALE else None
    line = f"{start}; an interval takes at least {MIN_QUESTIONS}"
    if needed is None or needed <= MIN_QUESTIONS:
        return f"{line}."
    return f"{line}, and to detect a difference of {SIZE:g} takes about {needed:,}, by the spread of these few."


def _better(report: Report, better: Sequence[MethodResult], metric: str) -> str:
    top = max(better, key=lambda own: _sign(report, metric) * (report.value(own, metric) or 0.0))
    line = f"Take {_name(top)}: {_shown(report, top, metric)}"
    cheap = _cheapest(report, better, metric)
    if cheap is not None and cheap is not top:
        return f"{line}. Cheapest of the {len(better)} that are: {_name(cheap)}, {_shown(report, cheap, metric)}."
    return f"{line}."


def _shown(report: Report, method: MethodResult, metric: str) -> str:
    """By how much it is better, and at what price."""
    own = method.differences[metric]
    interval = f"95 % interval {signed(own.low)} to {signed(own.high)}"
    share = _share(report, method, metric)
    return (
        f"shown to be better than {_base(report, method)} in {report.column(metric).heading}, "
        f"{signed(own.mean_difference)} ({interval}){f', with {share}' if share else ''}"
    )


def _not_worse(report: Report, compared: Sequence[MethodResult], worse: Sequence[MethodResult], metric: str) -> str:
    base, heading = _base(report), report.column(metric).heading
    if worse:
        names = listed([_name(own) for own in worse], 1)
        verb = "is" if len(worse) == 1 else "are"
        start = f"Nothing is shown to be better than {base} in {heading}, and {names} {verb} shown to be worse"
    else:
        start = f"Nothing is shown to be better or worse than {base} in {heading}"
    rest = [own for own in compared if own not in worse] + [report.methods[place] for place in report.baselines()]
    parts = [start]
    cheap = _cheapest(report, rest, metric)
    if cheap is not None and cheap.against is None:
        parts.append(f"cheapest of those not shown to be worse: {_name(cheap)} itself")
    elif cheap is not None:
        parts.append(
            f"cheapest of those not shown to be worse: {_name(cheap)}, with {_share(report, cheap, metric)}"
            f"{_at_worst(report, cheap, metric)}"
        )
    return f"{'; '.join(parts)}.{_more(report, compared, metric)}"


def _at_worst(report: Report, method: MethodResult, metric: str) -> str:
    """How far behind its baseline it may be, by its interval."""
    own = method.differences[metric]
    if own.questions == own.equal:
        return f" and the same value on all {own.questions:,} questions"
    end = own.low if _sign(report, metric) > 0 else own.high
    behind = -_sign(report, metric) * (end or 0.0)
    return f", but perhaps worse by up to {figure(behind, report.column(metric).unit)}" if behind > 0 else ""


def _more(report: Report, compared: Sequence[MethodResult], metric: str) -> str:
    """How many more questions would detect a difference, by the sample's spread; '' where there is no saying."""
    differences = [own.differences[metric] for own in compared]
    sd, asked = max(each.sd or 0.0 for each in differences), max(each.questions for each in differences)
    needed = questions_needed(sd, SIZE)
    if not sd or needed is None or report.column(metric).unit != SCALE:
        return ""
    more = needed - asked
    count = f"{more:,} more {_questions(more)} would" if more > 0 else f"These {asked:,} {_questions(asked)}"
    return f" {count} detect a difference of {SIZE:g} (80 % power, by this sample's spread)."


def _cheapest(report: Report, methods: Sequence[MethodResult], metric: str) -> MethodResult | None:
    """The one with the lowest price, the better one of equals; None without prices, or where price is the metric."""
    price = price_metric(report)
    if price is None or price == metric:
        return None
    priced = [(own, value) for own in methods if (value := report.value(own, price)) is not None]
    sign = _sign(report, metric)
    order = sorted(priced, key=lambda each: (each[1], -sign * (report.value(each[0], metric) or 0.0)))
    return order[0][0] if order else None


def _share(report: Report, method: MethodResult, metric: str) -> str:
    """Its price beside its baseline's: "7 % of naive RAG's prompt tokens"; '' without a price."""
    price = price_metric(report)
    own = report.value(method, price)
    theirs = report.value(report.methods[method.against], price) if method.against is not None else None
    if price is None or price == metric or own is None:
        return ""
    column = report.column(price)
    if not theirs:
        return f"{figure(own, column.unit)} {column.heading}"
    share = 100 * own / theirs
    return f"{f'{share:.0f}' if share >= 1 else f'{share:.1g}'} % of {_base(report, method)}'s {column.heading}"


def _gain(report: Report, method: MethodResult, metric: str) -> float:
    """By how much it is better than its baseline; below 0, worse."""
    return _sign(report, metric) * (method.differences[metric].mean_difference or 0.0)


def _sign(report: Report, metric: str) -> int:
    return -1 if report.column(metric).direction == "lower" else 1


def _base(report: Report, method: MethodResult | None = None) -> str:
    places = report.baselines()
    if method is not None and method.against is not None:
        return _name(report.methods[method.against])
    return _name(report.methods[places[0]]) if len(places) == 1 else "its baseline"


def _name(method: MethodResult) -> str:
    return shortened(method.label, _NAME)


def _questions(number: int) -> str:
    return "question" if number == 1 else "questions"
