"""The sentences that a report begins with: which method to take, by what was shown and by what it costs.

Below `ENOUGH` questions none is recommended, and none where no method has a value above 0: one that answers nothing is
not better for answering with fewer tokens. The sentence says why, and what to do. Elsewhere, a method is shown to be
better or worse than its baseline where the paired test of the primary metric says so after Holm's correction
(`columns.is_apart`), and what is shown to be better is taken. Otherwise the cheapest is named of those that are not
shown to be worse and that lie at most `MARGIN` below their baseline in this sample. Neither makes it as good: the
sentence says how much worse it may be, by the far end of its 95 % interval, and how many more questions would detect a
difference.

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

from vitalfew.tasks.metrics.answers import CUT
from vitalfew.tasks.metrics.base import ANSWER, SCALE
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
from vitalfew.tasks.reports.shown.text import listed, one_line, shortened
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
WRONG = (
    "Read some of the answers, and of the contexts that they are given from: the generator, its prompt or the gold "
    "answers do not fit. A judge reads answers in other words (judge.engine, judge.model)."
)
LOST = {
    "cut": "cut by the limit of tokens: raise generate.max_tokens.",
    "refused": "refused by the model or by a filter: read some of the refusals (table candidates).",
}
"""What became of most answers, and what to do."""
NOT_FOUND = "Look at some of the questions: what they name as their gold is perhaps not in the index."
TOO_LONG = (
    "Answers that hold a gold answer are wrong for their length alone: score.max_words=null judges them as they are."
)
_NAME, _FAULT, _ROUNDING = 48, 240, 1e-9


def recommendation(report: Report) -> str:
    """Two or three sentences, on one line; '' for a report without methods."""
    line = _recommendation(report)
    if (unjudged := next((own for own in report.methods if own.unjudged), None)) is not None:
        fault = shortened(one_line(unjudged.unjudged), _FAULT).rstrip(".")
        line = f"The judge has judged no answer of {_name(unjudged)}: {fault}. {line}"
    return f"{GAPPED} By them alone: {line[0].lower()}{line[1:]}" if line and report.asked.is_gapped else line


def recommended(report: Report) -> MethodResult | None:
    """The method that the sentences take: the best of those shown to be better, else the baseline where all others are
    shown to be worse, else the cheapest of those that lie near it; None where no choice can be made."""
    metric = _directed(report)
    own = _Comparison(report, metric) if metric and report.baselines() else None
    if own is None or not own.is_enough or is_blank(report):
        return None
    return own.best(own.better) if own.better else own.cheapest(own.near, own.price(own.near)) or own.best(own.near)


def _directed(report: Report) -> str | None:
    """The metric to choose by; None where it does not say which is better."""
    metric = quality_metric(report)
    return metric if metric and report.column(metric).direction in ("higher", "lower") else None


def is_blank(report: Report) -> bool:
    """Return whether no method has a value above 0 in a primary metric that is a share."""
    metric = _directed(report)
    column = report.column(metric) if metric else None
    is_share = column is not None and column.unit == SCALE and column.direction == "higher"
    return is_share and not any(report.values(metric or ""))


def _nothing(report: Report, metric: str) -> str:
    """Why nothing is recommended where every value is 0, and what to do."""
    column, asked = report.column(metric), report.asked.questions
    of = f"{asked:,} {_questions(asked)}"
    if any(report.values(CUT)):
        return f"Nothing is recommended: {column.heading} is 0 for every method on {of}. {TOO_LONG}"
    remedy = WRONG if ANSWER in column.needs else NOT_FOUND
    lost = {name: sum(getattr(method, name) for method in report.methods) for name in ("cut", "refused")}
    if ANSWER in column.needs and sum(lost.values()) > asked * len(report.methods) / 2:
        name = max(lost, key=lambda each: lost[each])
        remedy = f"{lost[name]:,} answers were {LOST[name]}"
    return f"Nothing is recommended: {column.heading} is 0 for every method on {of}. {remedy}"


def _recommendation(report: Report) -> str:
    if not report.methods:
        return ""
    metric = _directed(report)
    if metric is None:
        return "Nothing is recommended: no method has a score that says which is better."
    if is_blank(report):
        return _nothing(report, metric)
    own = _Comparison(report, metric)
    if len(report.methods) == 1 and not own.baselines:
        return f"Nothing is recommended: {_name(report.methods[0])} is the only method, compared with none."
    if not own.baselines:
        return (
            f"Nothing is recommended: every method is a baseline, so none is compared in {own.heading}. "
            "Set `baseline` to one of them."
        )
    if not own.known:
        return f"Nothing is recommended: no question has a value of {own.heading} for a method and for its baseline."
    if not own.is_enough:
        return own.not_yet()
    if own.better:
        return own.take_the_best()
    if len(own.worse) == len(own.tested):
        every = "every other method is" if len(own.worse) > 1 else f"{_name(own.worse[0])} is"
        return f"Stay with {own.base()}: {every} shown to be worse in {own.heading}."
    return own.not_worse()


class _Comparison:
    """A report's methods against their baselines in a metric that has a better direction, and sentences on them.

    `known`: those that have a difference; `tested`: those whose difference was tested; of these `better` and `worse`
    than their baseline; `near`: not shown to be worse and not far below it, and the `baselines`.
    """

    def __init__(self, report: Report, metric: str) -> None:
        self.report, self.metric = report, metric
        self.column = report.column(metric)
        self.heading = self.column.heading
        self.sign = -1 if self.column.direction == "lower" else 1
        self.margin = MARGIN + _ROUNDING if self.column.unit == SCALE else 0.0
        self.baselines = [report.methods[place] for place in report.baselines()]
        self.known = [own for own in report.methods if metric in own.differences]
        self.tested = [own for own in self.known if self.difference(own).p_holm is not None]
        self.asked = max((self.difference(own).questions for own in self.tested or self.known), default=0)
        self.is_enough = bool(self.tested) and self.asked >= ENOUGH
        apart = [own for own in self.tested if is_apart(self.difference(own))]
        self.better = [own for own in apart if self.gain(own) > 0]
        self.worse = apart if not self.better else []
        self.rest = [own for own in self.tested if own not in apart]
        self.near = [own for own in self.rest if self.gain(own) >= -self.margin] + self.baselines

    def difference(self, method: MethodResult) -> Difference:
        return method.differences[self.metric]

    def gain(self, method: MethodResult) -> float:
        """By how much it is better than its baseline; below 0, worse."""
        return self.sign * (self.difference(method).mean_difference or 0.0)

    def best(self, methods: Sequence[MethodResult]) -> MethodResult:
        """The one with the best value, the cheaper one of equals."""
        price = self.price(methods)

        def rank(own: MethodResult) -> tuple[float, float]:
            value = self.report.value(own, self.metric)
            return math.inf if value is None else -self.sign * value, self.report.value(own, price) or 0.0

        return min(methods, key=rank)

    def price(self, methods: Sequence[MethodResult]) -> str | None:
        """The measure by which the methods are the cheaper; None where there is none, or where it is the metric."""
        # Without the price of a server's tokens, USD are those of this machine's seconds alone.
        is_known = all(self.report.value(own, STAGE_USD.name) is not None and not own.unpriced for own in methods)
        price = STAGE_USD.name if is_known else price_metric(self.report)
        return None if price == self.metric else price

    def cheapest(self, methods: Sequence[MethodResult], price: str | None) -> MethodResult | None:
        """The one with the lowest price, the better one of equals; None without prices."""
        priced = [own for own in methods if self.report.value(own, price) is not None]

        def rank(own: MethodResult) -> tuple[float, float]:
            return self.report.value(own, price) or 0.0, -self.sign * (self.report.value(own, self.metric) or 0.0)

        return min(priced, key=rank, default=None)

    def not_yet(self) -> str:
        """Say how many questions it takes, where there are too few to choose by."""
        few = f"{self.asked:,} {_questions(self.asked)} {'is' if self.asked == 1 else 'are'} too few"
        needed = self.needed(self.known)
        detect = f" Detecting a difference of {SIZE:g} takes about {needed:,} questions (80 % power)." if needed else ""
        return f"Nothing is recommended: {few} to choose by; ask at least {ENOUGH}.{detect}"

    def take_the_best(self) -> str:
        top, price = self.best(self.better), self.price(self.better)
        cheap = self.cheapest(self.better, price)
        line = f"Take {self.picked(top)}: {self.shown(top)}."
        if cheap is None or cheap is top:
            return line
        of = f"Cheapest{self.in_price(price)} of the {len(self.better)} that are"
        return f"{line} {of}: {self.picked(cheap)}, {self.shown(cheap)}."

    def shown(self, method: MethodResult) -> str:
        """By how much it is better, and at what price."""
        own, shares = self.difference(method), self.shares(method, self.price([method]))
        return (
            f"shown to be better than {self.base(method)} in {self.heading}, {signed(own.mean_difference)} "
            f"({_interval(own)}){f', with {shares}' if shares else ''}"
        )

    def not_worse(self) -> str:
        base = self.base()
        start = f"Nothing is shown to be better or worse than {base} in {self.heading}."
        if self.worse:
            names = f"{listed([*map(_name, self.worse)], 1)} {'is' if len(self.worse) == 1 else 'are'}"
            start = f"Nothing is shown to be better than {base} in {self.heading}, and {names} shown to be worse."
        price = self.price(self.near)
        cheap, top = self.cheapest(self.near, price), self.best([*self.rest, *self.baselines])
        ahead = "" if top.against is None else f", {signed(self.difference(top).mean_difference)}"
        best = "" if top is cheap else f"best in this sample: {self.picked(top)}{ahead}"
        if cheap is None:
            return f"{start}{f' {sentence_case(best)}.' if best else ''}{self.more()}"
        side = "below" if self.sign > 0 else "above"
        of = f"at most {MARGIN:g} {side} {base}" if self.margin else f"not {side} {base}"
        line = f"Cheapest{self.in_price(price)} of those {of} in this sample: {self.picked(cheap)}"
        if cheap.against is None:
            line += " itself"
        else:
            line += f", with {self.shares(cheap, price)}{self.at_worst(cheap)}"
        return f"{start} {line}{f'; {best}' if best else ''}.{self.more()}"

    def at_worst(self, method: MethodResult) -> str:
        """How far behind its baseline it may be, by its interval."""
        own = self.difference(method)
        if own.questions == own.equal:
            return f" and the same value on all {own.questions:,} questions"
        behind = -self.sign * ((own.low if self.sign > 0 else own.high) or 0.0)
        return f", but perhaps worse by up to {figure(behind, self.column.unit)}" if behind > 0 else ""

    def more(self) -> str:
        """How many more questions would detect a difference, by the sample's spread; '' where there is no saying."""
        needed = self.needed(self.tested)
        if needed is None:
            return ""
        more = needed - self.asked
        asked = f"These {self.asked:,} {_questions(self.asked)}"
        count = f"{more:,} more {_questions(more)} would" if more > 0 else asked
        return f" {count} detect a difference of {SIZE:g} (80 % power, by this sample's spread)."

    def needed(self, compared: Sequence[MethodResult]) -> int | None:
        """The questions that detect a difference of `SIZE`; None for a metric of another unit, or without any
        spread."""
        sd = max(self.difference(own).sd or 0.0 for own in compared)
        return questions_needed(sd, SIZE) if sd and self.column.unit == SCALE else None

    def in_price(self, price: str | None) -> str:
        """The meaning of "cheapest"."""
        if price is None:
            return ""
        return " in USD" if price == STAGE_USD.name else f" in {self.report.column(price).heading}"

    def shares(self, method: MethodResult, price: str | None) -> str:
        """Its price and its prompt tokens beside its baseline's: "30 % of naive RAG's USD and 7 % of its prompt
        tokens"; of methods that are compared by a cost, the price alone."""
        prices = (price,) if is_cost(self.column) else dict.fromkeys((price, price_metric(self.report)))
        first, *others = [share for each in prices if (share := self.share(method, each))] or [""]
        return " and ".join([first, *(share.replace(f"{self.base(method)}'s", "its") for share in others)])

    def share(self, method: MethodResult, price: str | None) -> str:
        """A price of it beside its baseline's: "7 % of naive RAG's prompt tokens"; '' without a price."""
        own = self.report.value(method, price)
        theirs = self.report.value(self.report.methods[method.against], price) if method.against is not None else None
        if price is None or price == self.metric or own is None:
            return ""
        column = self.report.column(price)
        heading = "USD" if price == STAGE_USD.name else column.heading
        if not theirs:
            return f"{figure(own, column.unit)} {heading}"
        share = 100 * own / theirs
        return f"{f'{share:.0f}' if share >= 1 else f'{share:.1g}'} % of {self.base(method)}'s {heading}"

    def base(self, method: MethodResult | None = None) -> str:
        if method is not None and method.against is not None:
            return _name(self.report.methods[method.against])
        return _name(self.baselines[0]) if len(self.baselines) == 1 else "its baseline"

    def picked(self, method: MethodResult) -> str:
        """Its name, and what it used of its budget."""
        used = tokens_used(self.report, method)
        return f"{_name(method)}{f' ({used} tokens)' if used else ''}"


def _interval(own: Difference) -> str:
    return f"95 % interval {signed(own.low)} to {signed(own.high)}"


def _name(method: MethodResult) -> str:
    return shortened(method.label, _NAME)


def _questions(number: int) -> str:
    return "question" if number == 1 else "questions"
