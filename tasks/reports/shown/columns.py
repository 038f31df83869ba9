"""How metrics are shown: which by default, in what order, with how many digits, and which values are best."""

from collections.abc import Sequence

from vitalfew.tasks.metrics.base import ANSWER, CONTEXTS, GOLD_ANSWERS, GOLD_PASSAGES, HITS, SUPPORTING_FACTS, Column
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.statistics.paired import Difference

DIFFERENCE_HEADS = ("metric", "difference", "95 % interval", "p", "p (Holm)", "effect", "questions", "higher", "lower")
SMALL_UNITS, COUNTED_UNITS = ("s", "USD"), ("tokens", "contexts")
"""Units whose values are shown with three significant digits, and with one decimal."""
LEVEL = 0.05
"""Of significance: a smaller p, corrected, tells a method apart from the baseline."""
_GOLD = {GOLD_ANSWERS, GOLD_PASSAGES, SUPPORTING_FACTS}


def default_columns(report: Report) -> list[str]:
    """Quality of answers, then the other metrics, then costs, without details and what no method has a value for.

    Of costs with the same unit the first alone: prompt tokens, or the contexts' without a generator; the generator's
    own seconds where they were measured, else those of all stages.
    """
    shown = [column for column in _scored(report) if not column.detail]
    of_unit = {column.unit: column for column in reversed(shown) if is_cost(column)}
    costs = [column for column in shown if is_cost(column) and of_unit[column.unit] is column]
    others = [column for column in shown if not is_cost(column)]
    of_answers = [column for column in others if _of_answers(column)]
    rest = [column for column in others if not _of_answers(column)]
    return [column.name for column in (*of_answers, *rest, *costs)]


def _scored(report: Report) -> list[Column]:
    """Of every metric that any method has a value for, in the report's order."""
    return [report.column(metric) for metric in report.metrics() if report.has(metric)]


def is_cost(column: Column) -> bool:
    """Better the lower, and known without gold answers: what a method takes."""
    return column.direction == "lower" and not _GOLD & {*column.needs}


def _of_answers(column: Column) -> bool:
    return {ANSWER, GOLD_ANSWERS} <= {*column.needs}


def chosen_columns(report: Report, columns: Sequence[str] | None) -> list[str]:
    """`columns`, or the default ones. Raises ValueError for one that no method was scored on, with those there are."""
    if columns is None:
        return default_columns(report)
    known = report.metrics()
    if unknown := [column for column in columns if column not in known]:
        raise ValueError(f"{report.run_id} has no metric {', '.join(unknown)}; it has: {', '.join(known) or 'none'}")
    return [*columns]


def sentence_case(heading: str) -> str:
    """A heading as the beginning of a title."""
    return heading[0].upper() + heading[1:]


def figure(value: float | None, unit: str = "") -> str:
    """A value with the digits its unit deserves; '–' where there is none."""
    if value is None:
        return "–"
    if unit in SMALL_UNITS:
        return significant(value)
    if unit in COUNTED_UNITS:
        return f"{value:,.1f}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def significant(value: float) -> str:
    """Three significant digits, never with an exponent: 0.00123, 12.3, 1,234."""
    if value == 0:
        return "0"
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if abs(value) >= 100 else f"{float(text):.12f}".rstrip("0").rstrip(".") or "0"


def best(report: Report, metric: str) -> set[int]:
    """Positions of the methods with the best value, ties included; empty where there is nothing to choose."""
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


def not_told_apart(report: Report, metric: str) -> set[int]:
    """Positions of the methods whose difference to the baseline is not significant, or has too few questions."""
    compared = ((place, method.differences.get(metric)) for place, method in enumerate(report.methods))
    return {place for place, other in compared if other and not is_apart(other)}


def quality_metric(report: Report) -> str | None:
    """What quality is measured with: the experiment's primary metric."""
    return primary_metric(_scored(report), report.primary)


def price_metric(report: Report) -> str | None:
    """What quality is set against: the first cost, prompt tokens, else contexts, else the seconds of all stages."""
    return next((column.name for column in _scored(report) if is_cost(column) and not column.detail), None)


def difference_cells(heading: str, difference: Difference) -> list[tuple[str, bool]]:
    """Texts under `DIFFERENCE_HEADS`, and whether they are significant."""
    apart = is_apart(difference)
    low, high = difference.low, difference.high
    interval = "too few" if low is None or high is None else f"{signed(low)} to {signed(high)}"
    counts = (f"{difference.questions:,}", f"{difference.better:,}", f"{difference.worse:,}")
    effect = "–" if difference.effect is None else f"{difference.effect:+.2f}"
    p_values = (_p(difference.p), _p(difference.p_holm))
    texts = (heading, signed(difference.mean_difference), interval, *p_values, effect, *counts)
    return [(text, apart and place in (1, 2, 4)) for place, text in enumerate(texts)]


def signed(value: float | None) -> str:
    """A difference with its sign."""
    if value is None:
        return "–"
    text = f"{value:+.3f}" if abs(value) < 100 else f"{value:+,.1f}"
    return f"{value:+.1e}" if value and abs(value) < 0.0005 else text


def _p(p: float | None) -> str:
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


USUAL = "accuracy"


def primary_metric(scored: Sequence[Column], wanted: str | None = None) -> str | None:
    """`wanted`, else accuracy, else the first metric of answers; where there is none, of contexts, then of hits; then
    any other. Of several k the last. None where the metric has no value.

    `scored`: what has a value, in the order of `score.metrics`. Costs and details are chosen by name alone.
    """
    if wanted:
        return wanted if any(column.name == wanted for column in scored) else None
    better_high = [column for column in scored if column.direction in ("higher", None) and not column.detail]
    if not better_high or any(column.name == USUAL for column in better_high):
        return USUAL if better_high else None
    family = min(better_high, key=_stage).name.partition("@")[0]
    return [column.name for column in better_high if column.name.partition("@")[0] == family][-1]


def _stage(column: Column) -> int:
    """How far from the end of the dataflow the metric looks."""
    needs = (ANSWER, CONTEXTS, HITS)
    return next((place for place, need in enumerate(needs) if need in column.needs), len(needs))


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Positions of the points (cost, quality) that no other point dominates, by rising cost.

    A point dominates another that is no better in either and worse in one; of equal points none dominates.
    """
    front: list[int] = []
    for position in sorted(range(len(points)), key=lambda place: (points[place][0], -points[place][1], place)):
        # By rising cost, a point has to beat the best quality so far, or be that very point again.
        if not front or points[position][1] > points[front[-1]][1] or points[position] == points[front[-1]]:
            front.append(position)
    return front
