"""The command `significance`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from vitalfew.flows.cli.terminal import explained_errors, out
from vitalfew.tasks.reports.shown.text import one_line


def significance(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A .csv, .tsv or .parquet file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    lower_is_better: Annotated[bool, typer.Option("--lower-is-better", help="Rank the lowest value first.")] = False,
    control: Annotated[
        str | None,
        typer.Option("--control", metavar="METHOD", help="Method to compare with; default: the best ranked."),
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", metavar="ALPHA", help="Significance level, between 0 and 1.")
    ] = 0.05,
) -> None:
    """Test which methods differ over several data sets: Quade's test, average rankings, Li's procedure.

    A row of the table is a method, named in the first column. The other columns are data sets, with one value per
    cell, all in the same unit.

        vitalfew significance table.csv --control "Naive RAG"
    """
    with explained_errors():
        from vitalfew.tasks.reports.significance import conclusion, read_scores
        from vitalfew.tasks.reports.significance import significance as test

        result = test(read_scores(table), not lower_is_better, control, alpha)
        if as_json:
            print(json.dumps(result.as_json(), ensure_ascii=False, indent=1, allow_nan=False))
            return
        out.print(_shown(result))
        rule = f"significant: Quade's p and p (Li) are at most {alpha:g}"
        out.print(f"\nEvery method against {escape(one_line(result.control))}; {rule}.", soft_wrap=True)
        for sentence in conclusion(result):
            out.print(escape(sentence), soft_wrap=True, highlight=False)


def _shown(result: Any) -> Table:
    shown = Table(box=None, header_style="bold", pad_edge=False)
    shown.add_column("method", overflow="fold")
    for column in ("mean", "mean\nrank", "Quade\nranking", "z", "p", "p (Li)"):
        shown.add_column(column, justify="right", vertical="bottom", no_wrap=True)
    shown.add_column("verdict", vertical="bottom", no_wrap=True)
    for method in sorted(result.methods, key=lambda method: method.ranking):
        name = escape(one_line(method.method))
        figures = (f"{method.mean:.4g}", f"{method.mean_rank:.2f}", f"{method.ranking:.2f}")
        if method.z is None:
            shown.add_row(name, *figures, "", "", "", "control")
        else:
            verdict = "significant" if method.significant else "not shown"
            shown.add_row(name, *figures, *(f"{value:.4f}" for value in (method.z, method.p, method.p_li)), verdict)
    return shown
