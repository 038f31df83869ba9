"""The plot of differences to the baseline with their intervals."""

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.drawing import Plot, labelled
from vitalfew.tasks.reports.plots.forest import ForestRow, forest
from vitalfew.tasks.reports.shown.columns import LEVEL, is_apart, quality_metric
from vitalfew.tasks.reports.shown.text import shortened
from vitalfew.tasks.reports.statistics.paired import Difference

_NAME = 40


def differences(report: Report, metric: str | None = None) -> Plot | None:
    """Every method's difference to the baseline in `metric` (default: `quality_metric`); None where none has an
    interval."""
    metric = metric or quality_metric(report)
    every = ((number, method.differences.get(metric or "")) for number, method in enumerate(report.methods))
    rows = {labelled(report, number, _NAME): own for number, own in every if own and own.low is not None}
    if not metric or not rows:
        return None
    baseline = shortened(report.baseline(), _NAME)
    title = f"Difference to {baseline} in {report.column(metric).heading}"
    caption = (
        "Mean difference and 95 % interval, paired over questions. Filled: significantly different from the baseline "
        f"(p < {LEVEL:g} after Holm's correction{', over the methods' if metric == quality_metric(report) else ''})."
    )
    return forest([_row(name, own) for name, own in rows.items()], title, title, caption, name="differences")


def _row(name: str, own: Difference) -> ForestRow:
    ends = (own.mean_difference or 0.0, own.low or 0.0, own.high or 0.0)
    return ForestRow(name, *ends, own.questions, "filled" if is_apart(own) else "hollow")
