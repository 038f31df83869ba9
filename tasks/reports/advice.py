"""What to do after an evaluation: the text that every report begins with, in a terminal, on a page, in the library.

Below `ENOUGH` questions no method is chosen, and none where no method has a value above 0. Elsewhere a method is shown
to be better or worse than its baseline where the paired test of the primary metric says so after Holm's correction
(`columns.is_apart`). The best of those shown to be better is chosen. Without any, those are left that are not shown to
be worse and lie at most `MARGIN` below the best of them and of the baselines. The cheapest of these is chosen if it is
cheaper than its baseline, else the baseline.

The cheapest has the lowest cost of all stages without cache (USD) where every method's model has a price, else the
fewest prompt tokens. Seconds of this machine choose nothing.

Questions that are sentences of the corpus with a gap (the writer `cloze`) favour searches for sentences. By them a
lead proves little. So `FAVOURED`, whose case other corpora make (docs/results/equal_tokens.md), is chosen among those
that lead, and the baseline where none leads.

The number of questions that detect a true difference of `SIZE` in four runs of five (80 % power) is
n = ((z_0.975 + z_0.8) · sd / 0.05)² (Cohen, Statistical Power Analysis, 1988, chapter 2; `paired.questions_needed`),
with the largest standard deviation of the sample's paired differences: it is as uncertain as that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vitalfew.tasks.metrics.answers import CUT
from vitalfew.tasks.metrics.base import ANSWER, SCALE, Column
from vitalfew.tasks.reports.contents import STAGE_USD, MethodResult, Report
from vitalfew.tasks.reports.shown.columns import (
    HELD,
    is_apart,
    per_thousand,
    points,
    price_metric,
    quality,
    quality_metric,
    sentence_case,
)
from vitalfew.tasks.reports.shown.text import count, listed, one_line, shortened
from vitalfew.tasks.reports.statistics.bootstrap import ENOUGH
from vitalfew.tasks.reports.statistics.paired import Difference, questions_needed

FAVOURED = "spans"
SIZE = 0.05
"""The difference that the text counts questions for."""
MARGIN = 0.02
"""A method that lies further below the best in this sample is not the cheapest choice. In a metric of another unit it
may not lie below it at all."""
CHEAPER = 0.9
"""A method is cheaper than another if it takes at most this share of its price."""
GAPPED = (
    "The questions were made from sentences of the corpus. They favour searches for sentences, and need less context "
    f"than real ones; {ENOUGH} real questions would settle it."
)
WRITTEN = f"A language model wrote the questions; {ENOUGH} real questions would settle it."
MEASURED = (
    "Until then begin with {}: on most other corpora it was better than passages at equal tokens "
    "(docs/results/equal_tokens.md)."
)
WRONG = (
    "Read some answers and their contexts: the generator, its prompt or the gold answers do not fit. "
    "A judge also accepts answers in other words (judge.engine, judge.model)."
)
LOST = {
    "cut": "were cut by the limit of tokens: raise generate.max_tokens.",
    "refused": "were refused by the model or by a filter: read some refusals (table candidates).",
}
NOT_FOUND = "No context holds a gold answer. Look at some questions: the index may lack what they ask for."
TOO_LONG = "Answers that hold a gold answer count as wrong for their length: score.max_words=null accepts them."
_RIGHT = {"accuracy": "right", "exact_match": "right word for word", "judged_correct": "right, says the judge"}
"""Metrics that are 1 for a right answer, and how a sentence ends that counts them."""
_NAME, _FAULT, _ROUNDING = 48, 240, 1e-9


@dataclass(frozen=True, slots=True)
class Advice:
    """`headline`: what to do; `why`: the figures behind it; `caveat`: what speaks against it; `method`: the one to
    begin with, if any; `is_chosen`: these questions chose it."""

    headline: str = ""
    why: str = ""
    caveat: str = ""
    method: MethodResult | None = None
    is_chosen: bool = False


def recommendation(report: Report) -> str:
    """The advice as lines of text: headline, reasons and caveat, those that are not empty."""
    made = advice(report)
    return "\n".join(filter(None, (made.headline, made.why, made.caveat)))


def title(corpora: Sequence[str], column: Column | None) -> str:
    """The question that an evaluation asks, with the names of its indexes."""
    where = f" on {listed([*map(one_line, corpora)])}" if corpora else ""
    finds = column is not None and ANSWER not in column.needs
    return f"Which method {'finds most' if finds else 'answers best'}{where}?"


def titled(report: Report) -> str:
    metric = quality_metric(report)
    return title([index.name for index in report.indexes], report.column(metric) if metric else None)


def advice(report: Report) -> Advice:
    """Return what to do by a report; empty without methods."""
    if not report.methods:
        return Advice()
    own = _advice(report)
    caveat = GAPPED if report.asked.is_gapped else WRITTEN if report.asked.source.startswith("written:") else ""
    own = replace(own, caveat=caveat, why=_spaced(_unjudged(report), own.why))
    if own.method is not None:
        return own
    favoured = next((method for method in report.methods if method.name == FAVOURED), None)
    return replace(own, method=favoured, why=_spaced(own.why, MEASURED.format(FAVOURED))) if favoured else own


def _advice(report: Report) -> Advice:
    metric = quality_metric(report)
    column = report.column(metric) if metric else None
    if metric is None or column is None or column.direction not in ("higher", "lower"):
        return Advice("No method can be chosen: none has a score that says which is better.")
    if column.unit == SCALE and column.direction == "higher" and not any(report.values(metric)):
        return _all_wrong(report, column)
    own = _Comparison(report, metric)
    if not own.baselines:
        return own.alone()
    if not own.known:
        return Advice(f"No method can be chosen: no question has {own.heading} for a method and its baseline.")
    if not own.is_enough:
        headline = f"Too early to choose: {own.asked:,} of at least {ENOUGH} questions."
        return Advice(headline, _spaced(own.lead(), own.more(own.known)))
    if own.better:
        return own.begin_with_the_best()
    if len(own.worse) == len(own.tested):
        return own.stay(f"all others are shown to be worse in {own.heading}")
    return own.tie()


def _unjudged(report: Report) -> str:
    """The fault of a judge that judged no answer of a method; '' where there is none."""
    unjudged = next((own for own in report.methods if own.unjudged), None)
    if unjudged is None:
        return ""
    fault = shortened(one_line(unjudged.unjudged), _FAULT).rstrip(".")
    return f"The judge judged no answer of {_name(unjudged)}: {fault}."


def _all_wrong(report: Report, column: Column) -> Advice:
    """Return what to look at where every value of a share is 0."""
    asked, methods = report.asked.questions, len(report.methods)
    answers = ANSWER in column.needs
    is_lost = all(method.reading and not method.reading.held for method in report.methods)
    remedy = WRONG if answers and not is_lost else NOT_FOUND
    lost = {name: sum(getattr(method, name) for method in report.methods) for name in LOST}
    if answers and sum(lost.values()) > asked * methods / 2:
        name = max(lost, key=lambda each: lost[each])
        remedy = f"{lost[name]:,} answers {LOST[name]}"
    if any(report.values(CUT)):
        remedy = TOO_LONG
    headline = "No method answered a question right." if answers else "No method found what the questions ask for."
    of = f"{methods} methods" if methods > 1 else _name(report.methods[0])
    return Advice(headline, f"{sentence_case(column.heading)} is 0 for {of} on {count(asked, 'question')}. {remedy}")


class _Comparison:
    """A report's methods against their baselines in a metric that has a better direction, and the advice by it.

    `known`: those that have a difference; `tested`: those whose difference was tested; of these `better` and `worse`
    than their baseline, and the `rest`.
    """

    def __init__(self, report: Report, metric: str) -> None:
        self.report, self.metric = report, metric
        self.column = report.column(metric)
        self.heading = self.column.heading
        self.sign = -1 if self.column.direction == "lower" else 1
        self.price = self._price()
        self.baselines = [report.methods[place] for place in report.baselines()]
        self.known = [own for own in report.methods if metric in own.differences]
        self.tested = [own for own in self.known if self.difference(own).p_holm is not None]
        self.asked = max((self.difference(own).questions for own in self.tested or self.known), default=0)
        self.is_enough = bool(self.tested) and self.asked >= ENOUGH
        apart = [own for own in self.tested if is_apart(self.difference(own))]
        self.better = [own for own in apart if self.gain(own) > 0]
        self.worse = [own for own in apart if own not in self.better]
        self.rest = [own for own in self.tested if own not in apart]

    def _price(self) -> str | None:
        """The measure by which methods are cheaper; None where there is none, or where it is the metric itself."""
        is_priced = all(own.token_prices and not own.unpriced for own in self.report.methods)
        is_usd = is_priced and self.report.has(STAGE_USD.name)
        price = STAGE_USD.name if is_usd else price_metric(self.report)
        return None if price == self.metric else price

    def difference(self, method: MethodResult) -> Difference:
        return method.differences[self.metric]

    def gain(self, method: MethodResult) -> float:
        """By how much it is better than its baseline; below 0, worse."""
        return self.sign * (self.difference(method).mean_difference or 0.0)

    def rank(self, method: MethodResult) -> tuple[float, float]:
        """The best value first, the cheaper one of equals."""
        value = self.report.value(method, self.metric)
        return math.inf if value is None else -self.sign * value, self.report.value(method, self.price) or 0.0

    def best(self, methods: Sequence[MethodResult]) -> MethodResult:
        return min(methods, key=self.rank)

    def near(self) -> list[MethodResult]:
        """Those not shown to be better or worse that are about as good as the best of them and of the baselines."""
        margin = MARGIN + _ROUNDING if self.column.unit == SCALE else 0.0
        [top, _] = self.rank(self.best([*self.rest, *self.baselines]))
        return [own for own in self.rest if self.rank(own)[0] <= top + margin]

    def cheaper(self, methods: Sequence[MethodResult], than: MethodResult | None = None) -> MethodResult | None:
        """The cheapest of those that are clearly cheaper than another, or than their baselines; None without any."""

        def costs(own: MethodResult) -> float:
            return self.report.value(own, self.price) or math.inf

        able = [own for own in methods if costs(own) <= CHEAPER * costs(than or self.base(own)) < math.inf]
        return min(able, key=lambda own: (costs(own), self.rank(own)), default=None)

    def base(self, method: MethodResult) -> MethodResult:
        return self.report.methods[method.against] if method.against is not None else method

    def baseline(self) -> str:
        return _name(self.baselines[0]) if len(self.baselines) == 1 else "its baseline"

    def alone(self) -> Advice:
        if len(self.report.methods) > 1:
            why = "Set `baseline` to one method, so that the others are compared with it."
            return Advice("No method can be chosen: every method is a baseline.", why)
        [only] = self.report.methods
        return Advice(f"Nothing to choose: {_name(only)} is the only method.", self.value(only))

    def lead(self) -> str:
        """Say who leads so far, and by what."""
        top = self.best([*self.known, *self.baselines])
        other = self.base(top) if top.against is not None else self.best(self.known)
        values = [self.report.value(own, self.metric) for own in (top, other)]
        if values[0] == values[1] or None in values:
            return "So far no method leads."
        one, two = (
            f"{(value or 0.0) * self.asked:.0f}" if self.metric in _RIGHT else quality(value, self.column.unit)
            for value in values
        )
        figures = f"{one} right against {two}" if self.metric in _RIGHT else f"{self.heading} {one} against {two}"
        is_shown = any(own.against is not None and is_apart(self.difference(own)) for own in (top, other))
        return f"So far {_name(top)} leads, {figures}{'' if is_shown else '; chance could explain it'}."

    def begin_with_the_best(self) -> Advice:
        favoured = [own for own in self.better if own.name == FAVOURED] if self.report.asked.is_gapped else []
        top = self.best(favoured or self.better)
        why = f"{self.value(top)} {self.apart(top)}"
        others = [own for own in self.better if own is not top]
        if not favoured and (cheap := self.cheaper(others, top)):
            why += f" {_name(cheap)} is shown to be better, too, and cheaper: {self.takes(cheap, top)}."
        return Advice(f"Begin with {_name(top)}.", why, method=top, is_chosen=True)

    def stay(self, reason: str) -> Advice:
        """The baseline, and who may be better."""
        top = self.best(self.baselines)
        return Advice(f"Begin with {_name(top)}: {reason}.", self.others(top), method=top, is_chosen=True)

    def tie(self) -> Advice:
        cheap = None if self.report.asked.is_gapped else self.cheaper(self.near())
        none = f"o method is shown to be better than {self.baseline()} at {count(self.asked, 'question')}"
        if cheap is None:
            return self.stay(f"n{none}")
        why = f"It takes {self.takes(cheap)}. {self.value(cheap)}{self.at_worst(cheap)}"
        headline = f"N{none}. Begin with {_name(cheap)}, the cheapest of the best."
        return Advice(headline, _spaced(why, self.others(cheap)), method=cheap, is_chosen=True)

    def others(self, chosen: MethodResult) -> str:
        """Say what else was shown of the other methods, and how many more questions would show a difference."""
        if not self.rest:
            next_best = self.best(self.worse)
            return f"The next best, {_name(next_best)}, is behind by {self.points(self.gain(next_best))}."
        worse = listed([*map(_name, self.worse)], 1)
        shown = f"Shown to be worse: {worse}." if worse else ""
        top = self.best([*self.rest, *self.baselines])
        ahead = ""
        if top is not chosen and top.against is not None:
            ahead = f"In this sample {_name(top)} is ahead by {self.points(self.gain(top))}; chance could explain it."
        return _spaced(shown, ahead, self.more(self.tested))

    def value(self, method: MethodResult) -> str:
        """A sentence with its value and its baseline's: "It answers 59 % of 114 questions right, naive RAG 46 %."."""
        base = self.base(method)
        own, other = (self.report.measures(each)[self.metric] for each in (method, base))
        unlike = f" (n = {other.questions:,})" if other.questions != own.questions else ""
        shown, n = quality(own.value, self.column.unit), count(own.questions, "question")
        beside = "" if base is method else f"{_name(base)} {quality(other.value, self.column.unit)}{unlike}"
        if self.metric in _RIGHT:
            return f"It answers {shown} of {n} {_RIGHT[self.metric]}{_after(', ', beside)}."
        if self.metric in HELD:
            most = f"With at most {method.budget:,} tokens, its context" if method.budget else "Its context"
            what = "has the sentence that answers" if self.metric == "sp_recall" else "holds the answer to"
            return f"{most} {what} {shown} of {n}{_after('; with ', beside)}."
        return f"It reaches {self.heading} {shown} on {n}{_after(', ', beside)}."

    def apart(self, method: MethodResult) -> str:
        own, unit = self.difference(method), self.column.unit
        interval = "" if own.low is None else f" (95 % interval {points(own.low, '')} to {points(own.high, unit)})"
        return f"The difference is {points(own.mean_difference, unit)}{interval}."

    def at_worst(self, method: MethodResult) -> str:
        """How far behind its baseline it may be, by its interval."""
        own = self.difference(method)
        if own.questions == own.equal:
            return " Both have the same value on every question."
        behind = -self.sign * ((own.low if self.sign > 0 else own.high) or 0.0)
        return f" It may be worse by up to {self.points(behind)}." if behind > 0 else ""

    def points(self, difference: float) -> str:
        """The size of a difference."""
        return points(abs(difference), self.column.unit).lstrip("+")

    def more(self, compared: Sequence[MethodResult]) -> str:
        """How many questions would show a difference of `SIZE`; '' for a metric of another unit, or without spread."""
        sd = max(self.difference(own).sd or 0.0 for own in compared)
        needed = questions_needed(sd, SIZE) if sd and self.column.unit == SCALE else None
        if needed is None or needed <= self.asked:
            return ""
        return f"About {needed - self.asked:,} more questions would show a difference of 5 points."

    def takes(self, method: MethodResult, than: MethodResult | None = None) -> str:
        """Its price beside another's: "7 % of the prompt tokens of naive RAG", "0.12 USD for 1,000, not 0.8"."""
        other = than or self.base(method)
        own, theirs = self.report.value(method, self.price), self.report.value(other, self.price)
        if self.price is None or own is None or theirs is None:
            return ""
        if self.price == STAGE_USD.name:
            return f"{per_thousand(own)} USD per 1,000 questions, {_name(other)} {per_thousand(theirs)}"
        return f"{quality(own / theirs, SCALE)} of the {self.report.column(self.price).heading} of {_name(other)}"


def _name(method: MethodResult) -> str:
    return shortened(method.label, _NAME)


def _after(sign: str, text: str) -> str:
    return f"{sign}{text}" if text else ""


def _spaced(*parts: str) -> str:
    return " ".join(filter(None, parts))
