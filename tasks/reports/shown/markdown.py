"""The report as Markdown, for a Prefect artifact."""

import re
from collections.abc import Sequence

from vitalfew.tasks.reports import readings
from vitalfew.tasks.reports.contents import DifferingQuestion, Report
from vitalfew.tasks.reports.recommendation import recommendation
from vitalfew.tasks.reports.shown import labels
from vitalfew.tasks.reports.shown.columns import cells, chosen_columns, table_heading
from vitalfew.tasks.reports.shown.notes import answer_mark, asked, differing, evidence, headline, notes
from vitalfew.tasks.reports.shown.text import one_line

_QUESTIONS = 5
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#|!~$&])")


def markdown_report(report: Report, columns: Sequence[str] | None = None) -> str:
    """Title, table (the best of a column in bold) and notes. Raises ValueError for an unknown column."""
    metrics = chosen_columns(report, columns)
    table = [cells(report, metric) for metric in metrics]
    first = recommendation(report)
    lines = [
        *([f"**{escaped(first)}**", ""] if first else []),
        f"# {escaped(report.experiment)}",
        "",
        f"{escaped(asked(report))} (run {escaped(report.run_id)})",
        "",
        *_listed([*readings.sentences(report), *readings.warning(report)]),
        *_listed(headline(report)),
        _row(["method", *(escaped(table_heading(report, metric)) for metric in metrics)]),
        _row(["---", *("---:" for _ in metrics)]),
    ]
    for number, method in enumerate(report.methods):
        figures = [column[number] for column in table]
        bold = [(f"**{cell.text}**" if cell.best else cell.text, " ≈" if cell.alike else "") for cell in figures]
        lines.append(_row([escaped(method.label), *map("".join, bold)]))
    if any(cell.alike for column in table for cell in column):
        lines += ["", f"≈ not distinguishable from {escaped(report.baseline())} (p ≥ 0.05)"]
    lines += ["", *_listed(notes(report)), *_labels(report), *_differing(report)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _labels(report: Report) -> list[str]:
    """Tables and sentences on the verdicts of a judge and of people."""
    said = report.labelled
    if not said:
        return []
    lines = ["## Right answers, by judge and people", ""]
    for heads, rows in ((labels.HEADS, labels.shares(said)), (labels.DIFFERENCE_HEADS, labels.differences(said))):
        if rows:
            lines += [_row([*heads]), _row(["---", "---", *("---:" for _ in heads[2:])])]
            lines += [*(_row([*map(escaped, row)]) for row in rows), ""]
    return [*lines, *_listed(labels.sentences(said))]


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


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Text without the effect of Markdown's markup and of HTML's tags."""
    return _SPECIAL.sub(r"\\\1", one_line(text))
