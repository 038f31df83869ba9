"""Sentences of a report: headline, choices, gaps, errors, sets of answers, critics, statistics, and what was paid."""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from vitalfew.tasks.metrics.answers import CUT
from vitalfew.tasks.metrics.costs import CACHED
from vitalfew.tasks.reports.contents import Answered, BestAlpha, MethodResult, Paid, Report
from vitalfew.tasks.reports.shown.columns import PROMPT_TOKENS, figure, quality_metric
from vitalfew.tasks.reports.shown.tables import setting_text
from vitalfew.tasks.reports.shown.text import count, listed, one_line, shortened, significant, sql_command
from vitalfew.tasks.reports.statistics.bootstrap import ENOUGH, MIN_QUESTIONS
from vitalfew.tasks.reports.statistics.paired import questions_needed, visible_difference

_ERROR_LENGTH = 160
_NAME_LENGTH = 60
CACHED_SHARE = 0.5
"""The share of a whole prompt that the break-even line takes for cached."""
MOST = 6
"""Methods that a sentence each is about, at most."""
_STOPPED = 6
"""Methods that are named as having stopped early, or as answering at too great length, at most."""


def differing(report: Report) -> str:
    """On how many questions methods differ; '' where that is not known."""
    own, metric = report.differing, quality_metric(report)
    if not own or not metric:
        return ""
    methods = f"{len(own.methods)} of {len(report.methods)}" if len(own.methods) < len(report.methods) else "the"
    return (
        f"The answers of {methods} methods differ in {report.column(metric).heading} on {own.count:,} of "
        f"{own.questions:,} questions."
    )


def answer_mark(value: float) -> str:
    """Right, wrong, or a figure between."""
    return {1.0: "✓", 0.0: "✗"}.get(value) or figure(value)


def evidence(answered: Answered) -> str:
    """The contexts that an answer had: whether one holds a gold answer, and a part of it."""
    return f"{held(answered)}: {answered.excerpt}" if answered.contexts else held(answered)


def held(answered: Answered) -> str:
    """Return whether a context of an answer holds a gold answer."""
    if not answered.contexts:
        return "no context"
    if not answered.holding:
        return f"none of {count(answered.contexts, 'context')} holds it"
    return f"context {answered.holding:,} of {answered.contexts:,} holds it"


def failures(report: Report) -> list[str]:
    """Methods that were left out; gold that was not found; answers that failed, with their first messages, that were
    cut, and that were refused."""
    lines = [f"{one_line(name)} was left out: {one_line(reason)}." for name, reason in report.left_out.items()]
    lines += [*_lost(report), *_cut(report)]
    for method in report.methods:
        if method.without_hits:
            without = f"{method.without_hits:,} of {report.asked.questions:,} questions have no hits"
            lines.append(f"{_name(method)}: {without}, and count as not found.")
        if method.error_rows:
            texts = "; ".join(shortened(one_line(text), _ERROR_LENGTH) for text in method.errors).rstrip(".")
            failed = f"{method.error_rows:,} of {report.asked.questions:,} questions got no answer"
            lines.append(f"{_name(method)}: {failed}{f': {texts}' if texts else ''}.")
        if method.cut:
            remedy = "with a higher generate.max_tokens they come to an end"
            lines.append(f"{_name(method)}: {_answers(method.cut)} cut by the limit of tokens: {remedy}.")
        if method.refused:
            lines.append(f"{_name(method)}: {_answers(method.refused)} refused by the model or by a filter.")
    return lines


def _answers(number: int) -> str:
    return f"{count(number, 'answer')} {'was' if number == 1 else 'were'}"


def _lost(report: Report) -> list[str]:
    """A sentence on the questions that name a place which the index lacks."""
    asked = report.asked
    if not asked.lost:
        return []
    start = "1 question names" if asked.lost == 1 else f"{asked.lost:,} questions name"
    places = ", ".join(shortened(one_line(place), _NAME_LENGTH) for place in asked.lost_places)
    found = f"{'it gets' if asked.lost == 1 else 'they get'} no gold passages from it"
    command = sql_command("FROM rejects WHERE stage = 'ask'", report.store)
    return [f"{start} a source or quote that the index does not have, first: {places}; {found}: {command}"]


def _cut(report: Report) -> list[str]:
    """How many answers of which method a limit of words makes wrong."""
    found = ((method, method.summaries.get(CUT)) for method in report.methods)
    often = [
        f"{_name(method)} {round(own.value * own.questions):,} of {own.questions:,}"
        for method, own in found
        if own and own.value
    ]
    what = "Answers that hold a gold answer and count as wrong, because they have more than score.max_words words"
    return [f"{what}: {listed(often, _STOPPED)}."] if often else []


def statistics(report: Report) -> list[str]:
    """The basis of the differences, and how many questions a smaller one would take."""
    metric = quality_metric(report)
    differences = [method.differences[metric] for method in report.methods if metric and metric in method.differences]
    lines = [*gains(report), *_budgets(report), *_stopped(report)]
    lines += [_best(report, best) for best in report.best_alphas if best.metric == metric]
    seeds = dict.fromkeys(method.seeds for method in report.methods if method.seeds)
    lines += [f"Means of {len(each)} seeds ({', '.join(map(str, each))})." for each in seeds]
    if not metric or not differences:
        return lines
    heading = report.column(metric).heading
    questions = max(difference.questions for difference in differences)
    if questions < MIN_QUESTIONS:
        few = f"Too few questions to compare methods: {questions} with a value of {heading}"
        return [*lines, f"{few}, an interval needs at least {MIN_QUESTIONS}."]
    sd = max(difference.sd or 0.0 for difference in differences)
    seen = visible_difference(sd, questions)
    lines.append(
        "Differences to the baseline: paired over questions; 95 % bootstrap intervals, sign-flip test. Holm's "
        f"correction {_family(report, metric)}."
    )
    if questions < ENOUGH:
        lines.append(f"Intervals of differences by fewer than {ENOUGH} questions may be too narrow.")
    if sd and seen:
        goal = 0.05 if seen > 0.05 else 0.02 if seen > 0.02 else 0.01
        lines.append(
            f"With {questions:,} questions a true difference of {seen:.3f} in {heading} is detected four times in five "
            f"(80 % power); a difference of {goal:g} takes {questions_needed(sd, goal):,} questions."
        )
    return lines


def _stopped(report: Report) -> list[str]:
    """How often a refiner took no more because what it had was likely enough to hold the answer."""
    often = [
        f"{_name(method)} in {method.stopped:,} of {report.asked.questions:,} questions"
        for method in report.methods
        if method.stopped
    ]
    return [f"Stopped early, sure enough of what was taken: {listed(often, _STOPPED)}."] if often else []


def _family(report: Report, primary: str) -> str:
    """Over what p is corrected: how many differences are tested together."""
    tested = [metric for method in report.methods for metric, each in method.differences.items() if each.p is not None]
    own = tested.count(primary)
    what = f"is over {count(own, 'method')} in {report.column(primary).heading}, the primary metric"
    return what if len(tested) == own else f"{what}, and over all {len(tested):,} differences in any other metric"


def _best(report: Report, best: BestAlpha) -> str:
    family = f" ({best.family})" if best.family else ""
    return (
        f"{report.column(best.metric).heading} is highest at alpha {best.alpha:g}{family}; in 95 % of resamples of the "
        f"questions the best alpha lies between {best.low:g} and {best.high:g}."
    )


def asked(report: Report) -> str:
    """One line on the questions."""
    source = report.asked
    parts = [f"{count(source.questions, 'question')} of {one_line(source.source)}"]
    if source.where:
        parts.append(f"where {one_line(source.where)}")
    if source.half:
        how = f" ({halves(source.questions, source.hashed)})" if source.hashed else ""
        parts.append(f"{source.half} half{how}")
    if source.seed is not None:
        parts.append(f"drawn with seed {source.seed}")
    return ", ".join(parts)


def unscored(report: Report) -> list[str]:
    """Metrics that lack a score for some questions, and why; those with the same gap share a line."""
    gaps: dict[str, dict[tuple[int, int], list[str]]] = defaultdict(lambda: defaultdict(list))
    for method in report.methods:
        for metric, summary in report.measures(method).items():
            if summary.left_out or summary.value is None:
                gaps[metric][summary.left_out, summary.left_out + summary.questions].append(_name(method))
    lines: dict[tuple[int, int, str, str], list[str]] = defaultdict(list)
    for metric, of_metric in gaps.items():
        column = report.column(metric)
        for gap, methods in of_metric.items():
            names = "every method" if len(methods) == len(report.methods) > 1 else listed(methods)
            lines[*gap, names, " and ".join(column.needs)].append(column.heading)
    return [_gap(*gap, metrics) for gap, metrics in lines.items()]


def _gap(left_out: int, total: int, methods: str, needs: str, headings: list[str]) -> str:
    parts = (heading.partition("@") for heading in headings)
    shown = [*dict.fromkeys(f"{name}{'@k' if at else ''}" for name, at, _ in parts)]
    names = f"{listed(shown, 6)} ({methods})"
    wants = f": {'they need' if len(shown) > 1 else 'it needs'} {needs}" if needs else ""
    if left_out >= total:
        return f"Not scored: {names}{wants}."
    return f"{left_out:,} of {total:,} questions are left out of {names}{wants}."


def _name(method: MethodResult) -> str:
    return shortened(method.label, _NAME_LENGTH)


def _budgets(report: Report) -> list[str]:
    """The unit of budgets, which is not the generator's tokens; none without a budget."""
    if not any(method.budget for method in report.methods):
        return []
    counted = "words and punctuation marks, with the titles shown, whatever the generator"
    return [f"Budgets (refine.max_tokens) and context tokens are {counted}; the generator counts prompt tokens."]


def _break_even(report: Report, method: MethodResult, against: MethodResult) -> str:
    """From how many tokens on a prompt is cheaper cut than whole and cached; '' without a price of cached tokens.

    A whole prompt of T tokens, of which the share h is cached, costs T·((1 − h)·p + h·c) at the price p of a token
    and c of a cached one. Cut to t tokens, which differ with the question, so that none is cached, it costs t·p, and
    r for the cutting. So cutting pays where T > (t·p + r) / ((1 − h)·p + h·c)."""
    kept, whole = (report.value(own, PROMPT_TOKENS) for own in (method, against))
    if method.token_prices is None or not kept or not whole or kept >= whole:
        return ""
    full, cheap = (price / 1e6 for price in method.token_prices)
    if cheap >= full:
        return ""
    refining = sum(cost.whole_usd for cost in method.costs if cost.stage == "refine") / report.asked.questions

    def least(share: float) -> str:
        return f"{math.ceil((kept * full + refining) / ((1 - share) * full + share * cheap)):,}"

    line = (
        f"{_name(method)}: with {CACHED_SHARE:.0%} of the prompt cached, cutting it to {figure(kept, 'tokens')} tokens "
        f"pays above {least(CACHED_SHARE)} tokens at these prices; that of {_name(against)} has "
        f"{figure(whole, 'tokens')}"
    )
    hits = (report.value(against, CACHED) or 0.0) / whole
    return f"{line}, {hits:.0%} of them cached in this run: above {least(hits)}." if hits else f"{line}."


def paid(report: Report) -> list[str]:
    """Where a cut prompt is cheaper than a cached one; the costs of this run and of the one that chose its settings;
    what they reused of earlier ones."""
    if not any(method.costs for method in report.methods):
        return []
    compared = ((own, report.methods[own.against]) for own in report.methods if own.against is not None)
    cached = [line for method, baseline in compared if (line := _break_even(report, method, baseline))]
    choosing = [_paid("Choosing the settings", report.choosing)] if report.choosing else []
    return [*cached[:MOST], *choosing, _paid("This run", report.paid)]


def _paid(what: str, paid: Paid) -> str:
    line = f"{what} cost {_sum(paid.usd, paid.cpu_seconds)}"
    if paid.loading_usd:
        line += f". Loading models took {figure(paid.loading_usd, 'USD')} USD of it, charged to no method"
    if paid.earlier_stages:
        line += f". It reused work of {_sum(paid.earlier_usd, paid.earlier_cpu_seconds)}"
    return f"{line}."


def _sum(usd: float, cpu_seconds: float) -> str:
    return f"{figure(usd, 'USD')} USD for {significant(cpu_seconds, 2)} CPU s"


ANY, DRAWN, SIZE = "set_any", "set_drawn", "set_size"
CONTROLS = {
    "random_set_any": "a random set of the same size",
    "first_random_any": "its first answer with random others",
}


def gains(report: Report) -> list[str]:
    """A sentence for every method that gives several answers, against its baseline."""
    pairs = [(own, report.methods[own.against]) for own in report.methods if own.against is not None]
    return [line for method, baseline in pairs if (line := _gain(report, method, baseline))]


def _gain(report: Report, method: MethodResult, against: MethodResult) -> str:
    one = report.value(against, ANY)
    any_right, drawn, size = (report.value(method, metric) for metric in (ANY, DRAWN, SIZE))
    if one is None or any_right is None or drawn is None or size is None or size <= 1:
        return ""
    every = {name: report.value(method, metric) for metric, name in CONTROLS.items()}
    controls = {name: value for name, value in every.items() if value is not None}
    sentence = (
        f"{_name(method)}: {size:.2f} answers per question. Share of questions answered right by any "
        f"of them: {figure(any_right)}, by one drawn from them: {figure(drawn)}, "
        + ", ".join(f"by any of {name}: {figure(value)}" for name, value in controls.items())
    )
    gain, baseline = any_right - one, f"{_name(against)} ({figure(one)})"
    if gain <= 0:
        return f"{sentence}. No gain over {baseline}."
    parts = {name: f"{(value - one) / gain:.0%}" if value > one else "none" for name, value in controls.items()}
    shares = " and ".join(f"{name} gets {part} of it" for name, part in parts.items())
    return f"{sentence}. The gain over {baseline} is {gain:.3f}; {shares}."


def halves(questions: int, hashed: int) -> str:
    """How the questions were halved. `hashed`: how many of them by a hash."""
    if not hashed:
        return "halves of the data set"
    part = "" if hashed == questions else f"{hashed:,} of them "
    return f"{part}halved by a hash of the question's id"


def values(settings: Mapping[str, Any]) -> str:
    """Settings with their values, as `--set` takes them."""
    return one_line(" ".join(f"{key}={setting_text(value)}" for key, value in settings.items()))
