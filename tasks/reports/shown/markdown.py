"""The report as Markdown, for a Prefect artifact: the advice and the first sections."""

import re
from collections.abc import Iterable

from vitalfew.tasks.reports.advice import advice, titled
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.shown import grids
from vitalfew.tasks.reports.shown.columns import Cell
from vitalfew.tasks.reports.shown.sections import Section, first
from vitalfew.tasks.reports.shown.text import one_line

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#|!~$&])")


def markdown_report(report: Report) -> str:
    """Title, advice, and the sections that the page shows unfolded."""
    made = advice(report)
    texts = (made.headline, "**"), (made.why, ""), (made.caveat, "*")
    lines = [f"# {escaped(titled(report))}", ""]
    for text, mark in texts:
        lines += [f"{mark}{escaped(text)}{mark}", ""] if text else []
    for section in first(report):
        lines += _section(section)
    lines.append(f"Experiment {escaped(report.experiment)}, run {escaped(report.run_id)}.")
    return "\n".join(lines) + "\n"


def _section(section: Section) -> list[str]:
    lines = [f"## {escaped(section.title)}", ""]
    for grid in section.grids:
        lines += [*_grid(grid), "", escaped(grid.caption), ""] if grid.rows else []
    listed = [f"- {escaped(line)}" for line in section.lines]
    return [*lines, *listed, *([""] if listed else [])]


def _grid(grid: grids.Grid) -> list[str]:
    """A table's lines: figures are aligned right."""
    rules = ["---" if place <= grid.text_columns else "---:" for place in range(len(grid.heads))]
    rows = [[escaped(name), *map(_cell, cells)] for name, cells in grid.rows]
    return [row(map(escaped, grid.heads)), row(rules), *map(row, rows)]


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    return f"{f'**{text}**' if cell.best else text}{' ≈' if cell.alike else ''}"


def row(cells: Iterable[str]) -> str:
    """A line of a table; the cells are escaped already."""
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Text without the effect of Markdown's markup and of HTML's tags."""
    return _SPECIAL.sub(r"\\\1", one_line(text))
