"""The plots of a report, in the order of its page: a plot is a file of its own and a line here."""

from collections.abc import Callable

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.alpha import recall_by_alpha
from vitalfew.tasks.reports.plots.budgets import quality_by_budget
from vitalfew.tasks.reports.plots.candidates import candidates_in_the_plane
from vitalfew.tasks.reports.plots.conditions import where_it_pays
from vitalfew.tasks.reports.plots.contexts import contexts_in_two_dimensions
from vitalfew.tasks.reports.plots.cost import cost_by_stage
from vitalfew.tasks.reports.plots.decoding import decoding_speed
from vitalfew.tasks.reports.plots.depth import by_depth
from vitalfew.tasks.reports.plots.differences import differences
from vitalfew.tasks.reports.plots.drawing import Plot
from vitalfew.tasks.reports.plots.latency import latency_split
from vitalfew.tasks.reports.plots.quality import quality_by_price
from vitalfew.tasks.reports.plots.ranks import rank_distribution
from vitalfew.tasks.reports.plots.refiners import quality_by_refiner
from vitalfew.tasks.reports.plots.second_quality import second_quality_by_price
from vitalfew.tasks.reports.plots.spending import spent_by_method
from vitalfew.tasks.reports.plots.thresholds import by_threshold

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
"""None of a plot: the report has no ground for it."""


def drawn(report: Report) -> list[Plot]:
    """Every plot that the report has grounds for."""
    return [plot for draw in PLOTS if (plot := draw(report))]
