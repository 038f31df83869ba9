"""The sentences that a report begins with: which method to take, by what was shown and by what it costs.

Below `ENOUGH` questions none is recommended: the best so far is named, with its interval. From there on, a method is
shown to be better or worse than its baseline where the paired test of the primary metric says so after Holm's
correction (`columns.is_apart`), and what is shown to be better is taken. Otherwise the cheapest is named of those that
are not shown to be worse and that lie at most `MARGIN` below their baseline in this sample. Neither makes it as good:
the sentence says how much worse it may be, by the far end of its 95 % interval, and how many more questions would
detect a difference.

The cheapest has the lowest cost of all stages as if nothing had been known before (USD), or the fewest prompt tokens
where that cost of any of them is not known.

Questions that are sentences of the corpus with a gap (the writer `cloze`) favour some methods: the sentence says so
first.

The number of questions that detect a true difference of `SIZE` in four runs of five (80 % power) is
n = ((z_0.975 + z_0.8) · sd / 0.05)² (Cohen, Statistical Power Analysis, 1988, chapter 2; `paired.questions_needed`),
with the largest standard deviation of the sample's paired differences: it is as uncertain as that.
"""

import math
from collections.abc import Sequence

from vitalfew.tasks.metrics.base import SCALE
from vitalfew.tasks.reports.contents import STAGE_USD, MethodResult, Report
from vitalfew.tasks.reports.shown.columns import (
    figure,
    is_apart,
    is_cost,
    price_metric,
    quality_metric,
    sentence_case,
    signed,
    tokens_used,
)
from vitalfew.tasks.reports.shown.text import listed, shortened
from vitalfew.tasks.reports.statistics.bootstrap import ENOUGH
from vitalfew.tasks.reports.statistics.paired import Difference, questions_needed

SIZE = 0.05
"""The difference that the sentence counts questions for."""
MARGIN = 0.02
"""A method that lies further below its baseline in this sample is not named as the cheapest. In a metric of
another unit it may not lie below it at all."""
GAPPED = (
    "These questions are sentences of the corpus with a gap: they favour searches for sentences and for words, and "
    "are not shown to choose what people's questions choose (docs/results/written_questions.md)."
)
_NAME, _ROUNDING = 48, 1e-9


def recommendation(report: Report) -> str:
    """Two or three sentences, on one line; '' for a report without methods."""
    line = _recommendation(report)
    return f"{GAPPED} By them alone: {line[0].lower()}{line[1:]}" if line and report.asked.is_gapped else line


def recommended(report: Report) -> MethodResult | None:
    """The method that the sentences take: the best of those shown to be better, else the baseline where all others are
    shown to be worse, else the cheapest of those that lie near it; None where no choice can be made."""
    metric = quality_metric(report)
    if metric is None or report.column(metric).direction not in ("higher", "lower") or not report.baselines():
        return None
    compared = _compared(report, metric)
    if not compared or _asked(compared, metric) < ENOUGH:
        return None
    if better := _ahead_of_baseline(report, compared, metric):
        return _best(report, better, metric)
    near = _near(report, compared, metric)
    return _cheapest(report, near, _price(report, near, metric), metric) or _best(report, near, metric)


def _recommendation(report: Report) -> str:
    if not report.methods:
        return ""
    metric = quality_metric(report)
    if metric is None or report.column(metric).direction not in ("higher", "lower"):
        return "Nothing is recommended: no method has a score that says which is better."
    heading = report.column(metric).heading
    if not report.baselines():
        return _alone(report, heading)
    known = [own for own in report.methods if metric in own.differences]
    compared = _compared(report, metric)
    if not known:
        return f"Nothing is recommended: no question has a value of {heading} for a method and for its baseline."
    if not compared or _asked(compared, metric) < ENOUGH:
        return _not_yet(report, known, metric)
    if better := _ahead_of_baseline(report, compared, metric):
        return _better(report, better, metric)
    worse = [own for own in compared if is_apart(own.differences[metric])]
    if len(worse) == len(compared):
        every = "every other method is" if len(worse) > 1 else f"{_name(worse[0])} is"
        return f"Stay with {_base(report)}: {every} shown to be worse in {heading}."
    return _not_worse(report, compared, worse, metric)


def _compared(report: Report, metric: str) -> list[MethodResult]:
    """The methods whose difference to their baseline was tested."""
    known = (own for own in report.methods if metric in own.differences)
    return [own for own in known if own.differences[metric].p_holm is not None]


def _ahead_of_baseline(report: Report, compared: Sequence[MethodResult], metric: str) -> list[MethodResult]:
    """Those that are shown to be better."""
    return [own for own in compared if _gain(report, own, metric) > 0 and is_apart(own.differences[metric])]


def _near(report: Report, compared: Sequence[MethodResult], metric: str) -> list[MethodResult]:
    """Those that are not shown to be worse and do not lie far below their baseline, and the baselines."""
    rest = (own for own in compared if not is_apart(own.differences[metric]))
    return [own for own in rest if _gain(report, own, metric) >= -_margin(report, metric)] + _baselines(report)


def _alone(report: Report, heading: str) -> str:
    if len(report.methods) == 1:
        return f"Nothing is recommended: {_name(report.methods[0])} is the only method, compared with none."
    return (
        f"Nothing is recommended: every method is a baseline, so none is compared in {heading}. "
        "Set `baseline` to one of them."
    )


def _not_yet(report: Report, compared: Sequence[MethodResult], metric: str) -> str:
    """Name the best so far, where the questions are too few to choose by."""
    asked, column = _asked(compared, metric), report.column(metric)
    few = f"{asked:,} {_questions(asked)} {'is' if asked == 1 else 'are'} too few, ask at least {ENOUGH}"
    top = _best(report, [*compared, *_baselines(report)], metric)
    best = f"Best so far: {_picked(report, top)}, {column.heading} {figure(report.value(top, metric), column.unit)}"
    if top.against is not None:
        own = top.differences[metric]
        best += f", {signed(own.mean_difference)} against {_base(report, top)}"
        best += "" if own.low is None else f" ({_interval(own)})"
    share = _share(report, top, price_metric(report), metric)
    needed = _needed(report, compared, metric)
    detect = f" Detecting a difference of {SIZE:g} takes about {needed:,} questions (80 % power)." if needed else ""
    return (
        f"No choice can be made yet: {few}. "
        f"{best}{f', with {share}' if share and top.against is not None else ''}.{detect}"
    )


def _better(report: Report, better: Sequence[MethodResult], metric: str) -> str:
    top = _best(report, better, metric)
    line = f"Take {_picked(report, top)}: {_shown(report, top, metric)}"
    price = _price(report, better, metric)
    cheap = _cheapest(report, better, price, metric)
    if cheap is not None and cheap is not top:
        by = _in(report, price)
        shown = f"{_picked(report, cheap)}, {_shown(report, cheap, metric)}"
        return f"{line}. Cheapest{by} of the {len(better)} that are: {shown}."
    return f"{line}."


def _shown(report: Report, method: MethodResult, metric: str) -> str:
    """By how much it is better, and at what price."""
    own = method.differences[metric]
    share = _shares(report, method, _price(report, [method], metric), metric)
    return (
        f"shown to be better than {_base(report, method)} in {report.column(metric).heading}, "
        f"{signed(own.mean_difference)} ({_interval(own)}){f', with {share}' if share else ''}"
    )


def _not_worse(report: Report, compared: Sequence[MethodResult], worse: Sequence[MethodResult], metric: str) -> str:
    base, heading = _base(report), report.column(metric).heading
    if worse:
        names = listed([_name(own) for own in worse], 1)
        verb = "is" if len(worse) == 1 else "are"
        start = f"Nothing is shown to be better than {base} in {heading}, and {names} {verb} shown to be worse."
    else:
        start = f"Nothing is shown to be better or worse than {base} in {heading}."
    rest = [own for own in compared if own not in worse]
    near = _near(report, compared, metric)
    price = _price(report, near, metric)
    cheap, top = _cheapest(report, near, price, metric), _best(report, [*rest, *_baselines(report)], metric)
    best = "" if top is cheap else f"best in this sample: {_picked(report, top)}{_ahead(report, top, metric)}"
    if cheap is None:
        return f"{start}{f' {sentence_case(best)}.' if best else ''}{_more(report, compared, metric)}"
    side = "below" if _sign(report, metric) > 0 else "above"
    of = f"at most {MARGIN:g} {side} {base}" if _margin(report, metric) else f"not {side} {base}"
    line = f"Cheapest{_in(report, price)} of those {of} in this sample: {_picked(report, cheap)}"
    if cheap.against is None:
        line += " itself"
    else:
        line += f", with {_shares(report, cheap, price, metric)}{_at_worst(report, cheap, metric)}"
    return f"{start} {line}{f'; {best}' if best else ''}.{_more(report, compared, metric)}"


def _at_worst(report: Report, method: MethodResult, metric: str) -> str:
    """How far behind its baseline it may be, by its interval."""
    own = method.differences[metric]
    if own.questions == own.equal:
        return f" and the same value on all {own.questions:,} questions"
    end = own.low if _sign(report, metric) > 0 else own.high
    behind = -_sign(report, metric) * (end or 0.0)
    return f", but perhaps worse by up to {figure(behind, report.column(metric).unit)}" if behind > 0 else ""


def _ahead(report: Report, method: MethodResult, metric: str) -> str:
    """Its difference to its baseline; of a baseline nothing."""
    return "" if method.against is None else f", {signed(method.differences[metric].mean_difference)}"


def _more(report: Report, compared: Sequence[MethodResult], metric: str) -> str:
    """How many more questions would detect a difference, by the sample's spread; '' where there is no saying."""
    needed, asked = _needed(report, compared, metric), _asked(compared, metric)
    if needed is None:
        return ""
    more = needed - asked
    count = f"{more:,} more {_questions(more)} would" if more > 0 else f"These {asked:,} {_questions(asked)}"
    return f" {count} detect a difference of {SIZE:g} (80 % power, by this sample's spread)."


def _needed(report: Report, compared: Sequence[MethodResult], metric: str) -> int | None:
    """The questions that detect a difference of `SIZE`; None for a metric of another unit, or without any spread."""
    sd = max(own.differences[metric].sd or 0.0 for own in compared)
    return questions_needed(sd, SIZE) if sd and report.column(metric).unit == SCALE else None


def _asked(compared: Sequence[MethodResult], metric: str) -> int:
    return max(own.differences[metric].questions for own in compared)


def _best(report: Report, methods: Sequence[MethodResult], metric: str) -> MethodResult:
    """The one with the best value, the cheaper one of equals."""
    sign, price = _sign(report, metric), _price(report, methods, metric)

    def rank(own: MethodResult) -> tuple[float, float]:
        value = report.value(own, metric)
        return math.inf if value is None else -sign * value, report.value(own, price) or 0.0

    return min(methods, key=rank)


def _price(report: Report, methods: Sequence[MethodResult], metric: str) -> str | None:
    """The measure by which the methods are the cheaper; None where there is none, or where it is the metric."""
    is_known = all(report.value(own, STAGE_USD.name) is not None for own in methods)
    price = STAGE_USD.name if is_known else price_metric(report)
    return None if price == metric else price


def _cheapest(report: Report, methods: Sequence[MethodResult], price: str | None, metric: str) -> MethodResult | None:
    """The one with the lowest price, the better one of equals; None without prices."""
    priced = [(own, value) for own in methods if (value := report.value(own, price)) is not None]
    sign = _sign(report, metric)
    order = sorted(priced, key=lambda each: (each[1], -sign * (report.value(each[0], metric) or 0.0)))
    return order[0][0] if order else None


def _in(report: Report, price: str | None) -> str:
    """The meaning of "cheapest"."""
    if price is None:
        return ""
    return " in USD" if price == STAGE_USD.name else f" in {report.column(price).heading}"


def _shares(report: Report, method: MethodResult, price: str | None, metric: str) -> str:
    """Its price and its prompt tokens beside its baseline's: "30 % of naive RAG's USD and 7 % of its prompt tokens"; of
    methods that are compared by a cost, the price alone."""
    prices = (price,) if is_cost(report.column(metric)) else dict.fromkeys((price, price_metric(report)))
    shares = [_share(report, method, each, metric) for each in prices]
    first, *others = [share for share in shares if share] or [""]
    return " and ".join([first, *(share.replace(f"{_base(report, method)}'s", "its") for share in others)])


def _share(report: Report, method: MethodResult, price: str | None, metric: str) -> str:
    """A price of it beside its baseline's: "7 % of naive RAG's prompt tokens"; '' without a price."""
    own = report.value(method, price)
    theirs = report.value(report.methods[method.against], price) if method.against is not None else None
    if price is None or price == metric or own is None:
        return ""
    column = report.column(price)
    heading = "USD" if price == STAGE_USD.name else column.heading
    if not theirs:
        return f"{figure(own, column.unit)} {heading}"
    share = 100 * own / theirs
    return f"{f'{share:.0f}' if share >= 1 else f'{share:.1g}'} % of {_base(report, method)}'s {heading}"


def _interval(own: Difference) -> str:
    return f"95 % interval {signed(own.low)} to {signed(own.high)}"


def _margin(report: Report, metric: str) -> float:
    return MARGIN + _ROUNDING if report.column(metric).unit == SCALE else 0.0


def _baselines(report: Report) -> list[MethodResult]:
    return [report.methods[place] for place in report.baselines()]


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


def _picked(report: Report, method: MethodResult) -> str:
    """Its name, and what it used of its budget."""
    used = tokens_used(report, method)
    return f"{_name(method)}{f' ({used} tokens)' if used else ''}"


def _questions(number: int) -> str:
    return "question" if number == 1 else "questions"
