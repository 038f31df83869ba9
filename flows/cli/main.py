"""The command `vitalfew`. Heavy libraries are imported by the commands that need them: `--help` answers at once."""

import json
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from configs.evaluation import Evaluate, Method
from configs.loading import build
from configs.schema import IndexCorpus, Search
from flows.cli import compare as compare_cli
from flows.cli import costs as costs_cli
from flows.cli import evaluate as evaluation_cli
from flows.cli import methods as methods_cli
from flows.cli import show, tables
from flows.cli import significance as significance_cli
from flows.cli import sql as sql_cli
from flows.cli import train as training_cli
from flows.cli import ui as ui_cli
from flows.cli.methods import settings_help
from flows.cli.store import store_app
from flows.cli.terminal import (
    DEFAULT_STORE,
    ConfigOption,
    RunnerOption,
    SetOption,
    StoreOption,
    VerboseOption,
    WorkersOption,
    end_at_once_on_interrupt,
    err,
    explained_errors,
    layers,
    out,
    prepare,
)
from tasks.datasets.base import InputError

app = typer.Typer(
    name="vitalfew",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Measure what retrieval-augmented generation gains from passing on [b]less[/b].\n\n"
    "Start with [b]vitalfew index synthetic:passages=2000,questions=200 --name demo[/b], "
    "then [b]vitalfew search QUESTION --index demo[/b].",
)
app.add_typer(store_app)


@app.command(epilog=settings_help(IndexCorpus))
def index(
    datasets: Annotated[list[str], typer.Argument(metavar="DATASET", help="FORMAT:PATH?option=value; see `datasets`.")],
    name: Annotated[str, typer.Option("--name", help="The index's name, for `search --index`.")],
    store: StoreOption = DEFAULT_STORE,
    config: ConfigOption = None,
    assignments: SetOption = None,
    workers: WorkersOption = None,
    runner: RunnerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Make a corpus searchable: load → split → encode → index.

    Several datasets form one corpus. What is already in the store is not done again: after a kill the same command
    redoes only what was not finished; another layout reuses every vector.

        vitalfew index hotpotqa:questions.json squad:dev-v1.1.json --name wiki --set encode.context=late
    """
    prepare(verbose)
    with explained_errors():
        given = {"store": store, "workers": workers, "runner": runner and runner.value}
        given_layers = layers(config, assignments, datasets=datasets, name=name, **given)
        parameters = build(IndexCorpus, *given_layers)
        outcome = _run_index(parameters)
        show.indexed(out, parameters, outcome)


@app.command(epilog=settings_help(IndexCorpus))
def plan(
    datasets: Annotated[list[str], typer.Argument(metavar="DATASET", help="FORMAT:PATH?option=value; see `datasets`.")],
    store: StoreOption = DEFAULT_STORE,
    config: ConfigOption = None,
    assignments: SetOption = None,
    workers: WorkersOption = None,
    runner: RunnerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Quote what `index` would take, stage by stage: rows, tokens, time, memory, disk, USD.

    Looks through the sources for some seconds and runs the stages on a sample of some hundred passages. Exit status 1
    where the disk has not the room. After the run, `index` shows quote and truth side by side (SQL: `ledger`).

        vitalfew plan dpr_wiki:psgs_w100.tsv.gz --set encode.context=late --workers 16
    """
    prepare(verbose)
    with explained_errors():
        from flows.pipelines.quote.quote import plan as quote

        given = {"store": store, "workers": workers, "runner": runner and runner.value, "name": "planned"}
        parameters = build(IndexCorpus, *layers(config, assignments, datasets=datasets, **given))
        with err.status("Looking through the sources and trying a sample …"):
            made = quote(parameters)
        show.planned(out, parameters, made)
        made.check()


def _run_index(parameters: IndexCorpus) -> Any:
    from flows.pipelines.index_corpus import index_corpus, is_indexed, run_serially

    # Asked before a server and workers are started: a wrong name or a missing file is told at once.
    if is_indexed(parameters):
        return index_corpus(parameters, run_serially)
    from flows.pipelines.quote.quote import check_room

    check_room(parameters)
    if parameters.runner == "serial":
        return index_corpus(parameters, run_serially)
    from flows.index_corpus import index_corpus as flow
    from flows.server import check_server

    check_server()
    end_at_once_on_interrupt(parameters.store)
    return flow(parameters)


@app.command(epilog=settings_help(Search))
def search(
    question: Annotated[str, typer.Argument(help="What to look for.")],
    index: Annotated[str, typer.Option("--index", help="An index's name.")],
    alpha: Annotated[float | None, typer.Option("--alpha", help="Weight of the core vector, 0 to 1 [0.8].")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Units to show [10].")] = None,
    retriever: Annotated[
        str | None,
        typer.Option("--retriever", help="core_context (ParetoRAG), passage (naive), bm25 or hybrid [core_context]."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
    store: StoreOption = DEFAULT_STORE,
    config: ConfigOption = None,
    assignments: SetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Search an index: rank, score, its core and context parts, the sentence and the passage it comes from.

    vitalfew search "Who founded the town of Velmar?" --index demo --alpha 0.8 --top-k 5
    """
    prepare(verbose)
    with explained_errors():
        from tasks.registry import with_options
        from tasks.retrieve import Searcher

        given = {"retriever": retriever, "alpha": alpha, "top_k": top_k}
        options = {"retrieve": {key: value for key, value in given.items() if value is not None}}
        request = with_options(build(Search, *layers(config, assignments), options).retrieve, "retrieve")
        if not question.strip():
            raise InputError("the question is empty")
        hits = Searcher(store, index).hits(question, request)
    if as_json:
        print(json.dumps([vars(hit) for hit in hits], ensure_ascii=False, indent=1))
    else:
        show.hits(out, question, index, request, hits)


app.command(epilog=settings_help(Evaluate, Method))(evaluation_cli.evaluate)
app.command()(evaluation_cli.experiments)
app.command()(evaluation_cli.report)
app.command()(evaluation_cli.runs)
app.command()(compare_cli.compare)
app.command()(significance_cli.significance)
app.command()(ui_cli.ui)


app.command(epilog=training_cli.settings_help())(training_cli.train)


app.command()(sql_cli.sql)
app.command()(tables.tables)
app.command()(costs_cli.costs)


app.command()(methods_cli.methods)
app.command()(methods_cli.datasets)


@app.command()
def doctor(store: StoreOption = DEFAULT_STORE) -> None:
    """Check this machine and this store, and say what to do about what is amiss."""
    from flows.cli.doctor import checkup

    checks = checkup(store)
    table = Table(box=None, show_header=False, pad_edge=False)
    for check in checks:
        mark = "[green]ok[/]" if check.fine else "[red]no[/]" if check.needed else "[yellow]--[/]"
        table.add_row(mark, check.what, escape(check.found))
    out.print(table)
    raise typer.Exit(0 if all(check.fine or not check.needed for check in checks) else 1)


if __name__ == "__main__":
    app()
