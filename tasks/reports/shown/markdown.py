"""The report as Markdown, for a Prefect artifact."""

import re
from collections.abc import Sequence

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.shown.columns import best, chosen_columns, figure, not_told_apart
from vitalfew.tasks.reports.shown.notes import asked, headline, notes
from vitalfew.tasks.reports.shown.text import one_line

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#|!~$&])")


def markdown_report(report: Report, columns: Sequence[str] | None = None) -> str:
    """Title, table (the best of a column in bold) and notes. Raises ValueError for an unknown column."""
    metrics = chosen_columns(report, columns)
    declared = {metric: report.column(metric) for metric in metrics}
    lines = [
        f"# {_escaped(report.experiment)}",
        "",
        f"{_escaped(asked(report))} (run {_escaped(report.run_id)})",
        "",
        *_listed(headline(report)),
        _row(["method", *(_escaped(declared[metric].heading) for metric in metrics)]),
        _row(["---", *("---:" for _ in metrics)]),
    ]
    marked = {metric: best(report, metric) for metric in metrics}
    alike = {metric: not_told_apart(report, metric) for metric in metrics}
    values = {metric: report.values(metric) for metric in metrics}
    for number, method in enumerate(report.methods):
        cells = [figure(values[metric][number], declared[metric].unit) for metric in metrics]
        cells = [f"**{cell}**" if number in marked[m] else cell for m, cell in zip(metrics, cells, strict=True)]
        cells = [f"{cell} ≈" if number in alike[m] else cell for m, cell in zip(metrics, cells, strict=True)]
        lines.append(_row([_escaped(method.label), *cells]))
    if any(alike.values()):
        lines += ["", f"≈ not distinguishable from {_escaped(report.baseline())} (p ≥ 0.05)"]
    lines += ["", *_listed(notes(report))]
    return "\n".join(lines).rstrip("\n") + "\n"


def _listed(lines: Sequence[str]) -> list[str]:
    """A list and the blank line that ends it; nothing where there are no lines."""
    return [*(f"- {_escaped(line)}" for line in lines), ""] if lines else []


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Text that Markdown takes for no markup, and HTML for no tag."""
    return _SPECIAL.sub(r"\\\1", one_line(text))
