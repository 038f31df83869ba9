"""The plot of differences to the baseline with their intervals."""

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.drawing import Plot, labelled
from vitalfew.tasks.reports.plots.forest import ForestRow, forest
from vitalfew.tasks.reports.shown.columns import LEVEL, is_apart, plain, quality_metric
from vitalfew.tasks.reports.shown.text import shortened
from vitalfew.tasks.reports.statistics.paired import Difference

_NAME = 40


def differences(report: Report) -> Plot | None:
    """Every method's difference to the baseline in quality; None where none has an interval, or all are 0."""
    metric = quality_metric(report)
    every = ((number, method.differences.get(metric or "")) for number, method in enumerate(report.methods))
    rows = {labelled(report, number, _NAME): own for number, own in every if own and own.low is not None}
    if not metric or not any(own.low or own.high for own in rows.values()):
        return None
    baseline = shortened(report.baseline(), _NAME)
    title = f"Difference to {baseline} in {plain(report.column(metric))}"
    caption = (
        "Mean difference and 95 % interval, paired over questions. Filled: significantly different from the baseline "
        f"(p < {LEVEL:g} after Holm's correction over the methods)."
    )
    return forest([_row(name, own) for name, own in rows.items()], title, title, caption, name="differences")


def _row(name: str, own: Difference) -> ForestRow:
    ends = (own.mean_difference or 0.0, own.low or 0.0, own.high or 0.0)
    return ForestRow(name, *ends, own.questions, "filled" if is_apart(own) else "hollow")
