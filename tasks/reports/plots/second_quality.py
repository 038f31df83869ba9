"""F1 against what it takes, where accuracy is what quality is measured with: one is lenient, the other strict."""

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.drawing import Plot
from vitalfew.tasks.reports.plots.quality import quality_by_price
from vitalfew.tasks.reports.shown.columns import quality_metric

_SECOND = {"accuracy": "f1"}


def second_quality_by_price(report: Report) -> Plot | None:
    """None unless both were scored."""
    second = _SECOND.get(quality_metric(report) or "")
    return quality_by_price(report, second) if second and report.has(second) else None
