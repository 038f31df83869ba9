"""The metric that an experiment is about: its headline's, and that of the tests which are corrected by themselves."""

from collections.abc import Sequence

from vitalfew.tasks.metrics.base import ANSWER, CONTEXTS, HITS, Column

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
