"""The report on a terminal: the advice, the first sections, and on demand all others."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vitalfew.tasks.reports.advice import advice, titled
from vitalfew.tasks.reports.contents import Labelled, Report
from vitalfew.tasks.reports.shown import grids
from vitalfew.tasks.reports.shown.sections import Section, first, folded, judged
from vitalfew.tasks.reports.shown.text import at_store, one_line

_GAP = 2
_NARROWEST = 12
"""Columns that a text of a table needs."""


def terminal_report(report: Report, width: int, is_full: bool = False) -> Group:
    """The report for a terminal of `width` columns. `is_full`: with the sections that are folded on the page."""
    made = advice(report)
    texts = (made.headline, "bold green"), (made.why, ""), (made.caveat, "italic")
    parts: list[RenderableType] = [Text(titled(report), style="bold"), Text()]
    parts += [Text(text, style) for text, style in texts if text]
    for section in [*first(report), *(folded(report) if is_full else ())]:
        parts += [Text(), *_section(section, width)]
    parts += [Text(), Text(f"Experiment {one_line(report.experiment)}, run {report.run_id}.")]
    if not is_full:
        parts.append(Text(f"All other figures: vitalfew report {report.run_id} --full{at_store(report.store)}"))
    return Group(*parts)


def terminal_labels(labelled: Labelled, width: int) -> Group:
    return Group(*_section(judged(labelled), width))


def _section(section: Section, width: int) -> Iterator[RenderableType]:
    yield Text(section.title, style="bold")
    for grid in section.grids:
        if grid.rows:
            yield from _grid(grid, width)
    yield from map(Text, section.lines)
    for query in section.commands:
        yield Text(f"{query.about}:\n  {query.command}")


def _grid(grid: grids.Grid, width: int) -> Iterator[RenderableType]:
    """A table, or, where its figures do not fit side by side, a line for every figure."""
    if _needed(grid) <= width:
        yield _table(grid)
    else:
        for name, cells in grid.rows:
            pairs = zip(grid.heads[1:], cells, strict=True)
            yield Text(name, style="bold")
            yield from (Text(f"  {head} {_text(cell)}") for head, cell in pairs if cell.text)
    yield Text(grid.caption, style="dim")


def _needed(grid: grids.Grid) -> int:
    """The columns that a table needs: texts may be broken, figures may not."""
    columns = zip(*([_text(cell) for cell in cells] for _, cells in grid.rows), strict=True)
    figures = [max(map(cell_len, column)) for column in columns][grid.text_columns :]
    words = [max(map(cell_len, head.split()), default=0) for head in grid.heads[1 + grid.text_columns :]]
    widths = [*map(max, figures, words), *[_NARROWEST] * (1 + grid.text_columns)]
    return sum(widths) + _GAP * len(widths)


def _table(grid: grids.Grid) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, _GAP, 0, 0))
    for place, head in enumerate(grid.heads):
        if place <= grid.text_columns:
            table.add_column(Text(head), vertical="bottom", overflow="fold")
        else:
            figures = [_text(cells[place - 1]) for _, cells in grid.rows]
            width = max(map(cell_len, [*figures, *head.split()]))
            table.add_column(Text(head, justify="right"), justify="right", vertical="bottom", width=width)
    for name, cells in grid.rows:
        table.add_row(Text(name), *(Text(_text(cell), style="bold green" if cell.best else "") for cell in cells))
    return table


def _text(cell: grids.Cell) -> str:
    """A figure with its marks: the best of its column, and not distinguishable from the baseline."""
    return f"{cell.text}{' ≈' if cell.alike else ''}{'*' if cell.best else ''}"
