"""How metrics are shown: which by default, in what order, with how many digits, and which values are best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vitalfew.storage.generations import GateFigure
from vitalfew.tasks.metrics.base import (
    ANSWER,
    CONTEXTS,
    GOLD_ANSWERS,
    GOLD_PASSAGES,
    HITS,
    SCALE,
    SUPPORTING_FACTS,
    Column,
)
from vitalfew.tasks.reports.contents import PAID_USD, STAGE_SECONDS, STAGE_USD, MethodResult, Report
from vitalfew.tasks.reports.shown.text import significant
from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS
from vitalfew.tasks.reports.statistics.gates import DecidedMetric
from vitalfew.tasks.reports.statistics.paired import Difference

DIFFERENCE_HEADS = ("metric", "difference", "95 % interval", "p", "p (Holm)", "effect", "questions", "higher", "lower")
SPEED = "tokens/s"
SMALL_UNITS, COUNTED_UNITS = ("s", "USD"), ("tokens", "contexts", "words")
"""Units whose values are shown with three significant digits, and with one decimal."""
PROMPT_TOKENS, CONTEXT_TOKENS = "prompt_tokens", "context_tokens"
"""The second is what `refine.max_tokens` bounds: both count words and punctuation marks."""
HELD = ("sp_recall", "answer_shown")
"""Metrics that say how often a context holds the answer."""
LEVEL = 0.05
"""The level of significance: a smaller p, corrected, makes a difference significant."""
_PRICES, _OF_TABLES = {STAGE_USD.name, PAID_USD.name}, 1000
_GOLD = {GOLD_ANSWERS, GOLD_PASSAGES, SUPPORTING_FACTS}
_OF_ANSWERS = (HITS, GOLD_ANSWERS)
"""The needs of the recall of answers, by which retrieval is judged without gold passages."""


def default_columns(report: Report) -> list[str]:
    """Quality of answers, then the other metrics, then costs, without details and metrics that have no value.

    Of costs with the same unit the first alone, but the tokens of the contexts beside those of the prompts; of seconds
    those of all stages where they are known, because a refiner or critic may take more than the generator; and the
    primary metric. Where no question has a gold passage, the recall of answers stands for retrieval.
    """
    scored = _scored(report)
    has_gold = any(GOLD_PASSAGES in column.needs for column in scored)
    further = {report.primary, *(column.name for column in scored if not has_gold and column.needs == _OF_ANSWERS)}
    shown = [column for column in scored if not column.detail or column.name in further]
    of_unit = {column.unit: column for column in reversed(shown) if is_cost(column)}
    if STAGE_SECONDS in shown:
        of_unit[STAGE_SECONDS.unit] = STAGE_SECONDS

    def place(column: Column) -> int:
        if column == PAID_USD:  # no measure of a method: it stands beside what the method takes
            return 3
        return 2 if is_cost(column) else 0 if {ANSWER, GOLD_ANSWERS} <= {*column.needs} else 1

    wanted = {report.primary, CONTEXT_TOKENS, *(column.name for column in of_unit.values())}
    kept = [column for column in shown if not is_cost(column) or column.name in wanted]
    return [column.name for column in sorted(kept, key=place)]


def _scored(report: Report) -> list[Column]:
    """The declarations of all metrics that any method has a value for, in the report's order."""
    return [report.column(metric) for metric in report.metrics() if report.has(metric)]


def is_cost(column: Column) -> bool:
    """Better the lower, and known without gold answers: what a method takes."""
    return column.direction == "lower" and not _GOLD & {*column.needs}


def costs(columns: Sequence[Column]) -> list[str]:
    """The names of the metrics that are costs, speeds among them: figures to weigh, and no hypotheses."""
    return [column.name for column in columns if is_cost(column) or column.unit == SPEED]


def sentence_case(heading: str) -> str:
    """A heading as the beginning of a title."""
    return heading[0].upper() + heading[1:]


def figure(value: float | None, unit: str = "") -> str:
    """A value with the digits its unit deserves; '–' where there is none."""
    if value is None:
        return "–"
    if unit in SMALL_UNITS:
        return significant(value, 2 if unit == "USD" else 3)
    if unit in COUNTED_UNITS:
        return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def quality(value: float | None, unit: str = SCALE) -> str:
    """A value for people: shares in percent, with two digits that matter; others as `figure`. Only 1 is 100 %."""
    if value is None or unit != SCALE:
        return figure(value, unit)
    if 0.995 <= value < 1:
        return f"{math.floor(1000 * value) / 10:.1f} %"
    return f"{100 * value:.0f} %" if value == 0 or abs(value) >= 0.1 else f"{significant(100 * value, 2)} %"


def points(value: float | None, unit: str = SCALE) -> str:
    """A signed difference for people: shares in points of percent. Without a unit: of shares, the number alone."""
    if value is None or unit not in (SCALE, ""):
        return signed(value, unit)
    size = 100 * abs(value)
    number = f"{size:.0f}" if size >= 10 or size == 0 else f"{size:.1f}".removesuffix(".0")
    sign = "−" if value < 0 else "+"
    return f"{sign}{number}{' points' if unit else ''}"


def per_thousand(usd: float) -> str:
    """USD of a question as those of 1,000 questions, with two digits that matter."""
    return figure(_OF_TABLES * usd, "USD")


def best(report: Report, metric: str) -> set[int]:
    """Positions of the methods with the best value, ties included; empty where there is nothing to choose, and where
    the questions are too few for any interval."""
    every = [own.questions for method in report.methods if (own := report.measures(method).get(metric))]
    if 0 < max(every, default=0) < MIN_QUESTIONS:  # a metric that is of no question (seconds of an index) is as good
        return set()
    direction = report.column(metric).direction
    values = report.values(metric)
    known = [value for value in values if value is not None]
    if direction not in ("higher", "lower") or len(set(known)) < 2:
        return set()
    top = max(known) if direction == "higher" else min(known)
    return {position for position, value in enumerate(values) if value == top}


def is_apart(difference: Difference) -> bool:
    """True if the difference is significant after correction."""
    return difference.p_holm is not None and difference.p_holm < LEVEL


@dataclass(frozen=True, slots=True)
class Cell:
    """A text of a table, whether it is the best of its column, and whether its difference to the baseline was tested
    and is not significant."""

    text: str
    best: bool = False
    alike: bool = False


def cells(report: Report, metric: str) -> list[Cell]:
    """A metric's figures for every method, under `table_heading`."""
    marked, unit = best(report, metric), report.column(metric).unit
    compared = [method.differences.get(metric) for method in report.methods]
    alike = [own is not None and own.p is not None and not is_apart(own) for own in compared]
    times = _OF_TABLES if metric in _PRICES else 1
    values = (value and value * times for value in report.values(metric))
    texts = [figure(value, unit) for value in values]
    if metric == CONTEXT_TOKENS:
        texts = [tokens_used(report, method) or text for text, method in zip(texts, report.methods, strict=True)]
    return [Cell(text, row in marked, alike[row]) for row, text in enumerate(texts)]


def tokens_used(report: Report, method: MethodResult) -> str:
    """The tokens of its contexts, mean per question, beside its budget: "99.0 of 120"; '' without one of the two."""
    used = report.value(method, CONTEXT_TOKENS)
    return "" if used is None or method.budget is None else f"{figure(used, 'tokens')} of {method.budget:,}"


def table_heading(report: Report, metric: str) -> str:
    """The heading over `cells`: USD are those of 1,000 questions, which are easier to read than those of one."""
    heading = report.column(metric).heading
    return heading.replace("USD", f"USD per {_OF_TABLES:,} questions", 1) if metric in _PRICES else heading


def quality_metric(report: Report) -> str | None:
    """The measure of quality: the experiment's primary metric."""
    return primary_metric(_scored(report), report.primary)


def price_metric(report: Report) -> str | None:
    """The measure that quality is set against: the tokens of prompts, else of contexts, else the first cost."""
    costs = [column.name for column in _scored(report) if is_cost(column) and not column.detail]
    return next((name for name in (PROMPT_TOKENS, CONTEXT_TOKENS) if name in costs), next(iter(costs), None))


def difference_cells(heading: str, difference: Difference) -> list[tuple[str, bool]]:
    """Texts under `DIFFERENCE_HEADS`, and whether they are significant."""
    apart = is_apart(difference)
    low, high = difference.low, difference.high
    interval = "too few" if low is None or high is None else f"{signed(low)} to {signed(high)}"
    counts = (f"{difference.questions:,}", f"{difference.better:,}", f"{difference.worse:,}")
    effect = "–" if difference.effect is None else f"{difference.effect:+.2f}"
    p_values = ("–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}" for p in (difference.p, difference.p_holm))
    texts = (heading, signed(difference.mean_difference), interval, *p_values, effect, *counts)
    return [(text, apart and place in (1, 2, 4)) for place, text in enumerate(texts)]


def signed(value: float | None, unit: str = "") -> str:
    """A difference with its sign."""
    if value is None:
        return "–"
    if unit in SMALL_UNITS:
        return f"{'-' if value < 0 else '+'}{significant(abs(value))}"
    text = f"{value:+.3f}" if abs(value) < 100 else f"{value:+,.1f}"
    return f"{value:+.1e}" if value and abs(value) < 0.0005 else text


def decided_cells(own: DecidedMetric | GateFigure, unit: str = "") -> list[str]:
    """The means before and after, their difference and its interval."""
    ends = [signed(end, unit) if end is not None else "none" for end in (own.low, own.high)]
    interval = "too few" if own.low is None and own.high is None else f"{ends[0]} to {ends[1]}"
    return [figure(own.current, unit), figure(own.candidate, unit), signed(own.difference, unit), interval]


USUAL = "accuracy"


def primary_metric(scored: Sequence[Column], wanted: str | None = None) -> str | None:
    """`wanted`, else accuracy, else the first metric of answers; where there is none, of contexts, then of hits; then
    any other. Of several k the last. None where the metric has no value.

    `scored`: metrics that have a value, in the order of `score.metrics`. Costs and details are chosen by name alone.
    """
    if wanted:
        return wanted if any(column.name == wanted for column in scored) else None
    better_high = [column for column in scored if column.direction == "higher" and not column.detail]
    if not better_high or any(column.name == USUAL for column in better_high):
        return USUAL if better_high else None
    stages = (ANSWER, CONTEXTS, HITS)  # from the end of the dataflow on

    def stage(column: Column) -> int:
        return next((place for place, need in enumerate(stages) if need in column.needs), len(stages))

    family = min(better_high, key=stage).name.partition("@")[0]
    return [column.name for column in better_high if column.name.partition("@")[0] == family][-1]


def pareto_front(points: Sequence[tuple[float, float]], is_lower_better: bool = False) -> list[int]:
    """Positions of the points (cost, quality) that no other point dominates, by rising cost.

    A point dominates another that is no better in either and worse in one; of equal points none dominates.
    """
    if is_lower_better:
        points = [(cost, -quality) for cost, quality in points]
    front: list[int] = []
    for position in sorted(range(len(points)), key=lambda place: (points[place][0], -points[place][1], place)):
        # By rising cost, a point has to beat the best quality so far, or be that very point again.
        if not front or points[position][1] > points[front[-1]][1] or points[position] == points[front[-1]]:
            front.append(position)
    return front
