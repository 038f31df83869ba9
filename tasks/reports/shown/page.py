"""The report as one HTML file that needs nothing else: advice, table, plot; all else is folded."""

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

from vitalfew.tasks.reports.advice import advice, titled
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.drawing import Plot
from vitalfew.tasks.reports.plots.list import drawn
from vitalfew.tasks.reports.shown.sections import first, folded
from vitalfew.tasks.reports.shown.text import one_line

_TEMPLATE = Path(__file__).with_name("page.html.jinja")


def page(report: Report, plots: Sequence[Plot] | None = None) -> str:
    """HTML with everything in it: no script, no file and no server besides. `plots`: where they are drawn already."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    when = report.when.astimezone(UTC) if report.when.tzinfo else report.when
    return template.render(
        title=titled(report),
        advice=advice(report),
        first=first(report),
        folded=folded(report),
        plots=drawn(report) if plots is None else plots,
        experiment=one_line(report.experiment),
        run_id=one_line(report.run_id),
        when=f"{when:%Y-%m-%d %H:%M} UTC",
        store=one_line(report.store),
    )
