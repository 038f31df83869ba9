"""`vitalfew export`: what an evaluation found, in the formats of other tools."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from vitalfew.flows.cli.terminal import DEFAULT_STORE, StoreOption, explained_errors, out

export_app = typer.Typer(
    name="export", no_args_is_help=True, help="Export rankings and relevance judgements for other tools: run, qrels."
)


class Ids(StrEnum):
    """How questions and passages are called."""

    source = "source"
    content = "content"


Experiment = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or an experiment's name for its latest run.")
]
Method = Annotated[
    str | None, typer.Option("--method", metavar="METHOD", help="Method to export; default: the first that retrieves.")
]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write.")]
IdsOption = Annotated[
    Ids, typer.Option("--ids", help="source: ids of the data set; content: ids of the text, the same in every store.")
]


@export_app.command()
def run(
    name: Experiment,
    path: Out,
    method: Method = None,
    ids: IdsOption = Ids.source,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write a method's ranking as a TREC run: question, Q0, passage, rank, score, tag.

    If sentences were retrieved, a passage is listed once, at the rank of its best sentence.

        vitalfew export run quickstart --method "naive RAG" --out naive.run
    """
    with explained_errors():
        from vitalfew.tasks.reports.trec import write_run

        _written(write_run(store, name, method, path, ids.value), path)


@export_app.command()
def qrels(
    name: Experiment,
    path: Out,
    method: Method = None,
    ids: IdsOption = Ids.source,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write the gold passages of an evaluation's questions as TREC qrels: question, 0, passage, 1.

    vitalfew export qrels quickstart --out quickstart.qrels
    """
    with explained_errors():
        from vitalfew.tasks.reports.trec import write_qrels

        _written(write_qrels(store, name, method, path, ids.value), path)


def _written(lines: int, path: Path) -> None:
    out.print(f"{lines:,} lines in {escape(str(path))}", soft_wrap=True)
