"""The report as one HTML file that needs nothing else: tables, plots, settings, costs, and how to ask with SQL."""

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.papers import conditions
from vitalfew.tasks.reports.plots.drawing import Plot
from vitalfew.tasks.reports.plots.list import drawn
from vitalfew.tasks.reports.shown import grids
from vitalfew.tasks.reports.shown.columns import chosen_columns
from vitalfew.tasks.reports.shown.headline import headline
from vitalfew.tasks.reports.shown.notes import asked, paid, statistics, warnings
from vitalfew.tasks.reports.shown.queries import queries
from vitalfew.tasks.reports.shown.text import one_line

_TEMPLATE = Path(__file__).with_name("page.html.jinja")


def page(report: Report, columns: Sequence[str] | None = None, plots: Sequence[Plot] | None = None) -> str:
    """HTML with everything in it: no script, no file and no server besides. Raises ValueError for an unknown column.

    `columns`: metrics of the first table; every metric is in the second one. `plots`: where they are drawn already.
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
        headline=headline(report),
        figures=grids.figures(report, chosen),
        differences=grids.differences(report),
        pairs=grids.pairs(report),
        statistics=statistics(report),
        choices=grids.choices(report),
        indexes=grids.indexes(report),
        paper=grids.paper(report),
        conditions=conditions(report),
        everything=grids.everything(report),
        settings=grids.settings(report),
        costs=grids.costs(report),
        plots=drawn(report) if plots is None else plots,
        warnings=warnings(report),
        paid=paid(report),
        queries=[*queries(report)],
    )


def _moment(report: Report) -> str:
    return f"{report.when.astimezone(UTC) if report.when.tzinfo else report.when:%Y-%m-%d %H:%M} UTC"
