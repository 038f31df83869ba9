"""The report on a terminal: methods as rows, metrics as columns, in blocks that fit the width; and bars of both."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vitalfew.tasks.reports import readings
from vitalfew.tasks.reports.contents import Labelled, Report
from vitalfew.tasks.reports.papers import beside
from vitalfew.tasks.reports.recommendation import recommendation
from vitalfew.tasks.reports.shown import labels
from vitalfew.tasks.reports.shown.columns import (
    cells,
    default_columns,
    figure,
    price_metric,
    quality_metric,
    sentence_case,
    table_heading,
)
from vitalfew.tasks.reports.shown.notes import asked, choices, differing, headline, paid, statistics, warnings
from vitalfew.tasks.reports.shown.text import one_line, shortened

_GAP = 2
_MARK, _ALIKE = "*", "≈"


def terminal_report(report: Report, width: int) -> Group:
    """The table and what has to be said of it, for a terminal of `width` columns.

    Where the metrics do not fit side by side the methods are listed again, with the further ones: nothing is cut off.
    """
    metrics = default_columns(report)
    parts: list[RenderableType] = [Text(line, style="bold") for line in [recommendation(report)] if line]
    parts += [Text(line) for line in readings.sentences(report)]
    parts += [Text(line, style="yellow") for line in readings.warning(report)]
    parts += [Text(line) for line in [differing(report)] if line]
    if parts:
        parts.append(Text())
    parts.append(Text.assemble((one_line(report.experiment), "bold"), f"  {asked(report)}  (run {report.run_id})"))
    parts += [Padding(_table(report, block, width), (1, 0, 0, 0)) for block in _blocks(report, metrics, width)]
    every = [cell for metric in metrics for cell in cells(report, metric)]
    if any(cell.best for cell in every):
        parts.append(Text(f"{_MARK} the best of its column", style="dim"))
    if any(cell.alike for cell in every):
        parts.append(Text(f"{_ALIKE} not distinguishable from {report.baseline()} (p ≥ 0.05)", style="dim"))
    if beside(report):
        parts.append(Padding(_paper(report), (1, 0, 1, 0)))
    if lines := headline(report):
        parts.append(Padding(Group(*(Text(line) for line in lines)), (1, 0, 1, 0)))
    if report.labelled:
        parts.append(Padding(terminal_labels(report.labelled, width), (0, 0, 1, 0)))
    parts += [Text(line) for line in choices(report)]
    parts += [Text(warning, style="yellow") for warning in warnings(report)]
    parts += [Text(note) for note in [*statistics(report), *paid(report)]]
    return Group(*parts)


def _cells(report: Report, metric: str) -> list[str]:
    """Figures with room for both marks in every column that has any."""
    own = cells(report, metric)
    second = " " if any(cell.alike for cell in own) else ""
    return [f"{cell.text}{_ALIKE if cell.alike else second}{_MARK if cell.best else ' '}" for cell in own]


def _lines(report: Report, metric: str) -> str:
    """The heading with a word a line: figures are narrower than the names of their metrics."""
    return table_heading(report, metric).replace(" ", "\n")


def _name_width(report: Report, width: int) -> int:
    longest = max((cell_len(method.label) for method in report.methods), default=0)
    return max(len("method"), min(longest, max(12, width * 2 // 5)))


def _blocks(report: Report, metrics: Sequence[str], width: int) -> Iterator[list[str]]:
    """As many metrics at a time as fit beside the methods' names, at least one."""
    block: list[str] = []
    left = free = width - _name_width(report, width)
    for metric in metrics:
        words = [len(word) + 1 for word in _lines(report, metric).split("\n")]
        needed = _GAP + max([*words, *(len(cell) for cell in _cells(report, metric))])
        if block and needed > left:
            yield block
            block, left = [], free
        block.append(metric)
        left -= needed
    if block or not metrics:
        yield block


def _table(report: Report, metrics: Sequence[str], width: int) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column("method", vertical="bottom", max_width=_name_width(report, width), overflow="fold")
    for metric in metrics:
        heads = Text("\n".join(f"{word} " for word in _lines(report, metric).split("\n")), justify="right")
        table.add_column(heads, justify="right", vertical="bottom", no_wrap=True)
    columns = [_cells(report, metric) for metric in metrics]
    for row, method in enumerate(report.methods):
        texts = [Text(column[row], style="bold green" if column[row].endswith(_MARK) else "") for column in columns]
        table.add_row(Text(method.label), *texts)
    return table


def _paper(report: Report) -> Table:
    """The paper's printed figures beside ours; the page says under which conditions."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column("paper and ours", overflow="fold")
    for head in ("paper", "ours", "95 % interval", "claim"):
        table.add_column(head, justify="right" if head != "claim" else "left", no_wrap=head != "claim")
    for row in beside(report):
        table.add_row(*map(Text, (row.what, row.printed, row.ours, row.interval, row.verdict)))
    return table


def terminal_labels(labelled: Labelled, width: int) -> Group:
    """Show verdicts of a judge and of people: right answers by method, differences to the baseline, and sentences."""
    parts: list[RenderableType] = []
    tables = [("Right answers, by judge and people", labels.HEADS, labels.shares(labelled))]
    against = f"Minus {labels.compared_with(labelled)}, on the same questions"
    tables += [(against, labels.DIFFERENCE_HEADS, labels.differences(labelled))]
    for title, heads, rows in tables:
        if rows:
            parts += [Text(title, style="bold"), _said(heads, rows, width), Text()]
    return Group(*parts, *(Text(line) for line in labels.sentences(labelled)))


_ROOM = 72
"""Columns that the tables of labels need; a narrower terminal gets a line of text in place of a row."""


def _said(heads: Sequence[str], rows: Sequence[labels.Row], width: int) -> RenderableType:
    if width < _ROOM:
        pairs = ((pair for pair in zip(heads, row, strict=True) if pair[1]) for row in rows)
        return Group(*(Text(", ".join(f"{head} {cell}" for head, cell in own)) for own in pairs))
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column(heads[0], overflow="fold")
    table.add_column(heads[1], no_wrap=True)
    for head in heads[2:]:
        table.add_column(head, justify="right", no_wrap=True)
    last = ""
    for name, *figures in rows:
        table.add_row("" if name == last else Text(name), *map(Text, figures))
        last = name
    return table


_NAME, _LONGEST = 32, 24
_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"


def bars(report: Report, width: int) -> Table:
    """A row per method, a column of bars per measure, with the longest bar for its highest value."""
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
