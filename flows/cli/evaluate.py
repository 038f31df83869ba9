"""The commands `evaluate`, `experiments`, `report` and `runs`."""

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from configs.evaluation import Evaluate
from flows.cli.terminal import (
    DEFAULT_STORE,
    RunnerOption,
    SetOption,
    StoreOption,
    VerboseOption,
    WorkersOption,
    end_at_once_on_interrupt,
    explained_errors,
    layers,
    out,
    prepare,
)


def evaluate(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="A name of `experiments`, or FILE.yaml.")],
    index: Annotated[str | None, typer.Option("--index", help="The named index of methods that name none.")] = None,
    store: StoreOption = DEFAULT_STORE,
    assignments: SetOption = None,
    workers: WorkersOption = None,
    runner: RunnerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Answer questions by several methods, and set quality, tokens, time and costs side by side.

    What is already in the store is not done again: another alpha encodes nothing, another generator retrieves nothing.
    A list of values makes a method of each:

        vitalfew evaluate quickstart --index wiki --set retrieve.alpha=[0.5,0.8,1] --set questions.sample=500
    """
    prepare(verbose)
    with explained_errors():
        from flows.pipelines.experiments import evaluation, find
        from tasks.report import read_report

        name, settings = find(experiment)
        given = {"store": store, "workers": workers, "runner": runner and runner.value, "index": index}
        parameters = evaluation(name, settings, *layers(None, assignments, **given))
        outcome = _run(parameters)
        _show(store, read_report(store, outcome.run))


def _run(parameters: Evaluate) -> Any:
    from flows.pipelines.evaluate import evaluate as evaluate_plainly
    from flows.pipelines.evaluate import is_evaluated
    from flows.pipelines.index_corpus import run_serially

    # Asked before a server and workers are started: a wrong name or a missing model is told at once.
    if is_evaluated(parameters) or parameters.runner == "serial":
        return evaluate_plainly(parameters, run_serially)
    from flows.evaluate import evaluate as flow
    from flows.server import check_server

    check_server()
    end_at_once_on_interrupt(parameters.store)
    return flow(parameters)


def report(
    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="A run's id or its beginning, or an experiment's name.")
    ] = "latest",
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Show an evaluation again: its table, and where its page, CSV and Parquet lie.

    vitalfew report quickstart
    """
    with explained_errors():
        from tasks.report import read_report
        from tasks.reports.runs import find_run

        _show(store, read_report(store, find_run(store, run)))


def _show(store: Any, made: Any) -> None:
    from tasks.report import write_report
    from tasks.reports.shown.queries import queries
    from tasks.reports.shown.terminal import terminal_report

    files = write_report(store, made)
    out.print(terminal_report(made, out.width))
    out.print(f"\nPlots and all figures:  {escape(str(files.html))}  (open it in a browser)", soft_wrap=True)
    out.print(f"The table as CSV and Parquet:  {escape(str(files.csv))}, {escape(str(files.parquet))}", soft_wrap=True)
    out.print(f"With SQL:  {escape(queries(made)[0].command)}", soft_wrap=True, highlight=False)


def runs(store: StoreOption = DEFAULT_STORE) -> None:
    """List the runs of a store, the latest last: what they were for, how they ended, how long they took."""
    with explained_errors():
        from datetime import datetime

        from storage.runs import read_runs
        from storage.upkeep.inventory import check_store

        check_store(store)
        table = Table("run", "flow", "for", "state", "began (UTC)", box=None, header_style="bold", pad_edge=False)
        table.add_column("took", justify="right")
        for run in read_runs(store):
            began = datetime.fromisoformat(run.started)
            took = f"{(datetime.fromisoformat(run.ended) - began).total_seconds():,.0f} s" if run.ended else ""
            row = (run.run_id, run.flow, run.name, run.state, f"{began:%Y-%m-%d %H:%M}", took)
            table.add_row(*map(escape, row))
        out.print(table)
        out.print("\nThe table of an evaluation again:  vitalfew report RUN")


def experiments() -> None:
    """List the experiments that `evaluate` knows by name, with the table or figure that each repeats."""
    with explained_errors():
        from flows.pipelines.experiments import find, names

        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("experiment", no_wrap=True)
        table.add_column("repeats", max_width=20)
        table.add_column("what it is for")
        for name in names():
            settings = find(name)[1]
            table.add_row(name, *(escape(str(settings.get(key, ""))) for key in ("repeats", "about")))
        out.print(table)
        out.print("\nOne of your own: a YAML file of that form,  vitalfew evaluate my.yaml --index NAME")
