"""The command `compare`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from vitalfew.flows.cli.terminal import DEFAULT_STORE, StoreOption, explained_errors, out


def compare(
    run_a: Annotated[
        str, typer.Argument(metavar="RUN_A", help="RUN or RUN:METHOD; RUN is a run's id or an experiment's name.")
    ],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="Same format as RUN_A; differences are B minus A.")],
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="METRIC", help="List the questions that differ most in this metric."),
    ] = None,
    questions: Annotated[
        int, typer.Option("--questions", metavar="N", min=0, help="Questions to list per direction.")
    ] = 5,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Compare two evaluations question by question: show differences with intervals, and the questions that differ.

    Compares the methods that have the same name in both runs. To compare two methods, name both.

        vitalfew compare quickstart:"naive RAG" quickstart:ParetoRAG --metric f1
    """
    with explained_errors():
        from vitalfew.tasks.reports.comparison import compare as compared
        from vitalfew.tasks.reports.comparison import main_metric, question_table, write_comparison

        pairs = compared(store, run_a, run_b)
        by = main_metric(pairs, metric)
        for pair in pairs:
            table = question_table(store, pair)
            path = write_comparison(store, pair, table)
            _show(pair, table, by, questions, path)


def _show(pair: Any, table: Any, metric: str, questions: int, path: Path) -> None:
    from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS

    out.print(f"\n[bold]A[/] {escape(pair.a.label)}\n[bold]B[/] {escape(pair.b.label)}", soft_wrap=True)
    shared = (
        f"{len(pair.ids):,} questions in both, of {len(pair.a.scores.ids):,} in A and {len(pair.b.scores.ids):,} in B"
    )
    out.print(f"{shared}; differences are B minus A\n")
    out.print(_differences(pair))
    if len(pair.ids) < MIN_QUESTIONS:
        out.print(f"Too few questions for intervals: need at least {MIN_QUESTIONS}, got {len(pair.ids)}.")
    for heading, rows in _extremes(table, metric, questions):
        if rows:
            out.print(f"\n[bold]{heading} {escape(metric)}[/]")
            out.print(_questions(rows, metric, pair.a.columns[metric].unit))
    out.print(f"\nAll questions:  {escape(str(path))}, and as .parquet in the same folder", soft_wrap=True)


def _differences(pair: Any) -> Table:
    """Show every column if the terminal is wide, else only those that do not follow from the others."""
    from vitalfew.tasks.reports.shown.columns import DIFFERENCE_HEADS, difference_cells, figure

    narrow = {"p", "effect", "questions", "higher", "lower"} if out.width < 110 else set()
    heads = [head for head in DIFFERENCE_HEADS if head not in narrow]
    shown = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column(heads[0], no_wrap=True, min_width=18)
    for head in ("A", "B", *heads[1:]):
        shown.add_column(head.replace(" (", "\n("), justify="right", no_wrap=True)
    for metric, difference in pair.differences.items():
        column = pair.a.columns[metric]
        cells = dict(zip(DIFFERENCE_HEADS, difference_cells(column.heading, difference), strict=True))
        means = [figure(pair.mean(side, metric), column.unit) for side in (pair.a, pair.b)]
        texts = [f"[bold]{text}[/]" if bold else text for text, bold in (cells[head] for head in heads[1:])]
        shown.add_row(cells[heads[0]][0], *means, *texts)
    return shown


def _extremes(table: Any, metric: str, number: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the questions where B is furthest above and below A; equal differences keep the order of ids."""
    rows = [row for row in table.to_pylist() if None not in (row[f"a.{metric}"], row[f"b.{metric}"])]

    def by(row: dict[str, Any]) -> float:
        return float(row[f"b.{metric}"] - row[f"a.{metric}"])

    higher = [row for row in sorted(rows, key=by, reverse=True) if by(row) > 0][:number]
    lower = [row for row in sorted(rows, key=by) if by(row) < 0][:number]
    return [("B higher in", higher), ("B lower in", lower)]


def _questions(rows: list[dict[str, Any]], metric: str, unit: str) -> Table:
    from vitalfew.tasks.reports.shown.columns import figure
    from vitalfew.tasks.reports.shown.text import one_line, shortened

    shown = Table("question", "gold", "A", "B", box=None, header_style="bold", pad_edge=False, expand=True)
    shown.columns[0].ratio = 2
    for column in shown.columns[1:]:
        column.ratio = 1
    for row in rows:
        gold = " | ".join(row["gold_answers"])
        answers = [
            f"{shortened(one_line(row[f'{side}.answer'] or ''), 80)} ({figure(row[f'{side}.{metric}'], unit)})"
            for side in "ab"
        ]
        cells = [one_line(row["question"]), shortened(one_line(gold), 80), *answers]
        shown.add_row(*map(escape, cells))
    return shown
