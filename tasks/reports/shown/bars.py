"""A plot for a terminal: bars of every method's quality, and of what it takes."""

from rich.table import Table
from rich.text import Text

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.shown.columns import figure, price_metric, quality_metric, sentence_case
from vitalfew.tasks.reports.shown.text import shortened

_NAME, _LONGEST = 32, 24
_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"


def bars(report: Report, width: int) -> Table:
    """A row per method, a column of bars per measure; each column's longest bar is its highest value."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    metrics = [metric for metric in (quality_metric(report), price_metric(report)) if metric]
    length = max(4, min(_LONGEST, (width - _NAME) // max(1, len(metrics)) - 12))
    columns = []
    for metric in metrics:
        column, values = report.column(metric), report.values(metric)
        table.add_column(sentence_case(column.heading), no_wrap=True)
        top = max((value for value in values if value is not None), default=0.0)
        drawn = [bar((value or 0.0) / (top or 1.0), length) for value in values]
        columns.append([f"{one} {figure(value, column.unit)}" for one, value in zip(drawn, values, strict=True)])
    for row, method in enumerate(report.methods):
        table.add_row(Text(shortened(method.label, _NAME)), *(Text(column[row]) for column in columns))
    return table


def bar(share: float, length: int) -> str:
    """A bar of `share` (0 to 1) of `length` characters, to an eighth of a character."""
    eighths = round(max(0.0, min(1.0, share)) * length * 8)
    return (_FULL * (eighths // 8) + _PARTS[eighths % 8]).strip()
