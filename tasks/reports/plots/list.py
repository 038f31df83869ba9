"""The plots of a report, in the order of its page: a plot is a function in a file and a line here."""

from collections.abc import Callable

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots import cost, forest, quality
from vitalfew.tasks.reports.plots.drawing import Plot

PLOTS: tuple[Callable[[Report], Plot | None], ...] = (
    quality.quality_by_budget,
    forest.differences,
    quality.quality_by_price,
    cost.spent_by_method,
)
"""They return None where the report has no ground for the plot. The first one stands beside the table."""


def drawn(report: Report) -> list[Plot]:
    """Every plot that the report has grounds for."""
    return [plot for draw in PLOTS if (plot := draw(report))]
