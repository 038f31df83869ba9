"""The plots of a report, in the order of its page: a plot is a function in a file and a line here."""

from collections.abc import Callable

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots import cost, differences, quality, questions, sweeps
from vitalfew.tasks.reports.plots.drawing import Plot

PLOTS: tuple[Callable[[Report], Plot | None], ...] = (
    quality.quality_by_budget,
    quality.quality_by_price,
    cost.spent_by_method,
    differences.differences,
    differences.where_it_pays,
    quality.second_quality_by_price,
    sweeps.quality_by_refiner,
    sweeps.by_threshold,
    quality.decoding_speed,
    cost.latency_split,
    questions.candidates_in_the_plane,
    questions.contexts_in_two_dimensions,
    sweeps.recall_by_alpha,
    sweeps.by_depth,
    questions.rank_distribution,
    cost.cost_by_stage,
)
"""They return None where the report has no ground for the plot."""


def drawn(report: Report) -> list[Plot]:
    """Every plot that the report has grounds for."""
    return [plot for draw in PLOTS if (plot := draw(report))]
