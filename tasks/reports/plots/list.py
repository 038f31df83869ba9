"""The plots of a report, in the order of its page: a plot is a file and a line here."""

from collections.abc import Callable

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.cost import cost_by_stage, latency_split, spent_by_method
from vitalfew.tasks.reports.plots.differences import differences, where_it_pays
from vitalfew.tasks.reports.plots.drawing import Plot
from vitalfew.tasks.reports.plots.quality import (
    decoding_speed,
    quality_by_budget,
    quality_by_price,
    second_quality_by_price,
)
from vitalfew.tasks.reports.plots.questions import (
    candidates_in_the_plane,
    contexts_in_two_dimensions,
    rank_distribution,
)
from vitalfew.tasks.reports.plots.sweeps import by_depth, by_threshold, quality_by_refiner, recall_by_alpha

PLOTS: tuple[Callable[[Report], Plot | None], ...] = (
    quality_by_budget,
    quality_by_price,
    spent_by_method,
    differences,
    where_it_pays,
    second_quality_by_price,
    quality_by_refiner,
    by_threshold,
    decoding_speed,
    latency_split,
    candidates_in_the_plane,
    contexts_in_two_dimensions,
    recall_by_alpha,
    by_depth,
    rank_distribution,
    cost_by_stage,
)
"""They return None where the report has no ground for the plot."""


def drawn(report: Report) -> list[Plot]:
    """Every plot that the report has grounds for."""
    return [plot for draw in PLOTS if (plot := draw(report))]
