"""The report as Markdown, for a Prefect artifact."""

import re
from collections.abc import Iterable, Sequence

from vitalfew.tasks.reports import readings
from vitalfew.tasks.reports.contents import DifferingQuestion, Report
from vitalfew.tasks.reports.recommendation import recommendation
from vitalfew.tasks.reports.shown import grids, labels
from vitalfew.tasks.reports.shown.columns import Cell
from vitalfew.tasks.reports.shown.notes import answer_mark, asked, differing, evidence, headline, notes
from vitalfew.tasks.reports.shown.text import one_line

_QUESTIONS = 5
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#|!~$&])")


def markdown_report(report: Report) -> str:
    """Title, table (the best of a column in bold) and notes."""
    figures = grids.figures(report)
    first = recommendation(report)
    lines = [
        *([f"**{escaped(first)}**", ""] if first else []),
        f"# {escaped(report.experiment)}",
        "",
        f"{escaped(asked(report))} (run {escaped(report.run_id)})",
        "",
        *_listed([*readings.sentences(report), *readings.warning(report)]),
        *_listed(headline(report)),
        *_grid(figures),
    ]
    if any(cell.alike for _, cells in figures.rows for cell in cells):
        lines += ["", f"≈ not distinguishable from {escaped(report.baseline())} (p ≥ 0.05)"]
    lines += ["", *_listed(notes(report)), *_labels(report), *_differing(report)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _labels(report: Report) -> list[str]:
    """Tables and sentences on the verdicts of a judge and of people."""
    said = report.labelled
    if not said:
        return []
    tables = [line for grid in grids.labelled(report) for line in [*_grid(grid), ""]]
    return ["## Right answers, by judge and people", "", *tables, *_listed(labels.sentences(said))]


def _differing(report: Report) -> list[str]:
    """The questions on which methods differ: some of them, with the answers and the evidence."""
    shown = report.differing.shown[:_QUESTIONS] if report.differing else ()
    if not shown:
        return []
    return ["## Questions on which methods differ", "", escaped(differing(report)), "", *map(_question, shown)]


def _question(own: DifferingQuestion) -> str:
    lines = [f"- {escaped(own.question)} ({escaped(' | '.join(own.gold))})"]
    lines += [
        f"  - {answer_mark(each.value)} {escaped(each.method)}: {escaped(' | '.join(each.answers))} "
        f"({escaped(evidence(each))})"
        for each in own.answered
    ]
    return "\n".join(lines)


def _listed(lines: Sequence[str]) -> list[str]:
    """A list and the blank line that ends it; nothing where there are no lines."""
    return [*(f"- {escaped(line)}" for line in lines), ""] if lines else []


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
