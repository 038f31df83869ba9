"""The report as one HTML file that needs nothing else: tables, plots, settings, costs, and how to ask with SQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from tasks.reports import plots
from tasks.reports.columns import best, chosen_columns, figure, heading, significant
from tasks.reports.notes import asked, paid, warnings
from tasks.reports.queries import queries
from tasks.reports.results import Report
from tasks.reports.tables import setting_text
from tasks.reports.text import one_line

_TEMPLATE = Path(__file__).with_name("page.html.jinja")
_SECOND = {"accuracy": "f1"}
"""Another quality worth a plot of its own, by the first one."""


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    best: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of the page: a row is a method (or a part of it), the first column its header."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    text_columns: int = 0
    """How many of the first columns are text and not figures."""


def page(report: Report, columns: Sequence[str] | None = None) -> str:
    """HTML with everything in it: no script, no file and no server besides. Raises ValueError for an unknown column.

    `columns`: metrics of the first table; every metric is in the second one.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    chosen = chosen_columns(report, columns)
    return template.render(
        title=one_line(report.experiment),
        asked=asked(report),
        run_id=one_line(report.run_id),
        when=_moment(report),
        store=one_line(report.store),
        figures=_figures(report, chosen, "Chosen metrics; the best of a column is bold and has a star."),
        everything=_everything(report),
        settings=_settings(report),
        costs=_costs(report),
        plots=_plots(report),
        warnings=warnings(report),
        paid=paid(report),
        queries=[*queries(report)],
    )


def _moment(report: Report) -> str:
    return f"{report.when.astimezone(UTC) if report.when.tzinfo else report.when:%Y-%m-%d %H:%M} UTC"


def _name(report: Report, number: int) -> str:
    return (
        f"{number + 1} {report.methods[number].label}{' (baseline)' if number == 0 and len(report.methods) > 1 else ''}"
    )


def _rows(report: Report, columns: Sequence[Sequence[Cell]]) -> list[tuple[str, Sequence[Cell]]]:
    return [(_name(report, row), [column[row] for column in columns]) for row in range(len(report.methods))]


def _figures(report: Report, metrics: Sequence[str], caption: str) -> Grid:
    columns = []
    for metric in metrics:
        marked = best(report, metric)
        values = report.values(metric)
        columns.append([Cell(figure(metric, value), row in marked) for row, value in enumerate(values)])
    return Grid(caption, ["method", *map(heading, metrics)], _rows(report, columns))


def _everything(report: Report) -> Grid:
    """Every metric with its questions: a row per method and metric."""
    rows = []
    for number in range(len(report.methods)):
        for metric, summary in report.measures(report.methods[number]).items():
            counts = (f"{summary.questions:,}", f"{summary.left_out:,}")
            cells = [Cell(metric), Cell(figure(metric, summary.value)), *map(Cell, counts)]
            rows.append((_name(report, number), cells))
    caption = (
        "Every metric: mean over the questions that could be scored, how many they are, and how many are left out."
    )
    return Grid(caption, ("method", "metric", "value", "questions", "left out"), rows, 1)


def _settings(report: Report) -> Grid:
    keys = report.settings()
    columns = [[Cell(one_line(setting_text(m.settings.get(key))) or "–") for m in report.methods] for key in keys]
    return Grid("Settings in which the methods differ.", ["method", *keys], _rows(report, columns), len(keys))


def _costs(report: Report) -> Grid:
    rows = []
    for number, method in enumerate(report.methods):
        for cost in method.costs:
            measured = (
                one_line(cost.stage),
                f"{cost.rows:,}",
                f"{cost.tokens:,}",
                significant(cost.wall_seconds),
                significant(cost.cpu_seconds),
                f"{cost.peak_memory_bytes / 2**20:,.0f}",
                significant(cost.usd),
                "reused" if cost.reused else "this run",
            )
            rows.append((_name(report, number), [Cell(text) for text in measured]))
    heads = ("method", "stage", "rows", "tokens", "wall s", "CPU s", "peak MiB", "USD", "paid by")
    return Grid("What each stage took, summed over its shards.", heads, rows, 1)


def _plots(report: Report) -> list[plots.Plot]:
    first = plots.quality_metric(report)
    second = _SECOND.get(first or "")
    drawn = [plots.quality_by_tokens(report)]
    if second and any(value is not None for value in report.values(second)):
        drawn.append(plots.quality_by_tokens(report, second))
    drawn += [plots.recall_by_alpha(report), plots.cost_by_stage(report)]
    return [plot for plot in drawn if plot]
