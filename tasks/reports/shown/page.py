"""The report as one HTML file that needs nothing else: tables, plots, settings, costs, and how to ask with SQL."""

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

from tasks.reports.contents import Report
from tasks.reports.papers import conditions
from tasks.reports.plots import grids, plots
from tasks.reports.plots.depth import by_depth
from tasks.reports.plots.drawing import Plot
from tasks.reports.plots.forest import differences
from tasks.reports.plots.pictures import candidates_in_the_plane, contexts_in_two_dimensions, with_and_without_mmr
from tasks.reports.plots.ranks import rank_distribution
from tasks.reports.shown.columns import chosen_columns, quality_metric
from tasks.reports.shown.notes import asked, paid, statistics, warnings
from tasks.reports.shown.queries import queries
from tasks.reports.shown.text import one_line

_TEMPLATE = Path(__file__).with_name("page.html.jinja")
_SECOND = {"accuracy": "f1"}
"""Another quality worth a plot of its own, by the first one."""


def page(report: Report, columns: Sequence[str] | None = None) -> str:
    """HTML with everything in it: no script, no file and no server besides. Raises ValueError for an unknown column.

    `columns`: metrics of the first table; every metric is in the second one.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    chosen = chosen_columns(report, columns)
    return template.render(
        title=one_line(report.experiment),
        asked=asked(report),
        run_id=one_line(report.run_id),
        when=_moment(report),
        store=one_line(report.store),
        figures=grids.figures(report, chosen),
        differences=grids.differences(report),
        statistics=statistics(report),
        indexes=grids.indexes(report),
        paper=grids.paper(report),
        conditions=conditions(report),
        everything=grids.everything(report),
        settings=grids.settings(report),
        costs=grids.costs(report),
        plots=drawn(report),
        warnings=warnings(report),
        paid=paid(report),
        queries=[*queries(report)],
    )


def _moment(report: Report) -> str:
    return f"{report.when.astimezone(UTC) if report.when.tzinfo else report.when:%Y-%m-%d %H:%M} UTC"


def drawn(report: Report) -> list[Plot]:
    """Every plot that the report has grounds for."""
    first = quality_metric(report)
    second = _SECOND.get(first or "")
    drawn = [plots.quality_by_tokens(report), differences(report)]
    if second and any(value is not None for value in report.values(second)):
        drawn.append(plots.quality_by_tokens(report, second))
    drawn += [with_and_without_mmr(report), candidates_in_the_plane(report), contexts_in_two_dimensions(report)]
    drawn += [plots.recall_by_alpha(report), by_depth(report), rank_distribution(report), plots.cost_by_stage(report)]
    return [plot for plot in drawn if plot]
