"""The commands `evaluate`, `experiments`, `report` and `runs`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from vitalfew.configs.evaluation import Evaluate
from vitalfew.flows.cli.run import execute
from vitalfew.flows.cli.terminal import (
    DEFAULT_STORE,
    RunnerOption,
    SetOption,
    StoreOption,
    VerboseOption,
    WorkersOption,
    explained_errors,
    layers,
    out,
    prepare,
)

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.evaluate import Evaluated
    from vitalfew.tasks.report import Written


def evaluate(
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help="A name from `vitalfew experiments`, or FILE.yaml.")
    ],
    index: Annotated[
        str | None, typer.Option("--index", metavar="NAME", help="Index of the methods that do not name one.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    assignments: SetOption = None,
    workers: WorkersOption = None,
    runner: RunnerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Answer questions with several methods, and compare their quality, tokens, time and costs.

    Finished work is not repeated: another alpha encodes nothing, another generator retrieves nothing.
    A list of values makes one method per value:

        vitalfew evaluate quickstart --index wiki --set retrieve.alpha=[0.5,0.8,1] --set questions.sample=500

    An experiment that chooses settings, such as quickstart, needs about thirty questions; --set choose=null asks all
    questions with the current settings.
    """
    prepare(verbose)
    with explained_errors():
        from vitalfew.flows.pipelines.experiments import evaluation, find

        name, settings = find(experiment, store)
        given = {"store": store, "workers": workers, "runner": runner and runner.value, "index": index}
        parameters = evaluation(name, settings, *layers(None, assignments, **given))
        outcome = execute(parameters, flow)
        show_report(outcome.report)
        _rejected_questions(outcome, parameters)


def _rejected_questions(outcome: "Evaluated", parameters: Evaluate) -> None:
    """Print how many rows of `questions.dataset` were not used; those of the index's own were told when it was made."""
    loads = [stages["load"] for stages in outcome.methods.values() if "load" in stages]
    if loads:
        from vitalfew.flows.cli.show import rejected

        rejected(out, loads[0], parameters)


def flow() -> Callable[[Evaluate], "Evaluated"]:
    """The flow that evaluates, which takes seconds to import."""
    from vitalfew.flows.evaluate import evaluate

    return evaluate


def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id or a prefix of it, or an experiment's name.")
    ] = "latest",
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Show an evaluation again: its table, and the paths of its page, CSV and Parquet files.

    vitalfew report quickstart
    """
    with explained_errors():
        from vitalfew.tasks.report import read_report, write_report
        from vitalfew.tasks.reports.runs import find_run

        show_report(write_report(store, read_report(store, find_run(store, run))))


def show_report(written: "Written") -> None:
    """Print the table of an evaluation, and where its page, its figures and its rows are."""
    from vitalfew.storage import files
    from vitalfew.tasks.reports.shown.page import queries
    from vitalfew.tasks.reports.shown.terminal import terminal_report

    out.print(terminal_report(written.report, out.width))
    page = escape(str(files.local(written.html)))  # of a bucket: the copy that is here
    out.print(f"\nPlots and all figures:  {page}  (open in a browser)", soft_wrap=True)
    out.print(
        f"The table as CSV and Parquet:  {escape(str(written.csv))}, {escape(str(written.parquet))}", soft_wrap=True
    )
    out.print(f"With SQL:  {escape(queries(written.report)[0].command)}", soft_wrap=True, highlight=False)


def runs(store: StoreOption = DEFAULT_STORE) -> None:
    """List the runs of a store, latest last: flow, index or experiment, state, start and duration."""
    with explained_errors():
        from datetime import datetime

        from vitalfew.storage.runs import read_runs
        from vitalfew.storage.upkeep.inventory import check_store

        check_store(store)
        table = Table("run", "flow", "for", "state", "began (UTC)", box=None, header_style="bold", pad_edge=False)
        table.add_column("took", justify="right")
        for run in read_runs(store):
            began = datetime.fromisoformat(run.started)
            took = f"{(datetime.fromisoformat(run.ended) - began).total_seconds():,.0f} s" if run.ended else ""
            row = (run.run_id, run.flow, run.name, run.state, f"{began:%Y-%m-%d %H:%M}", took)
            table.add_row(*map(escape, row))
        out.print(table)
        out.print("\nTo show the table of an evaluation:  vitalfew report RUN")


def experiments(store: StoreOption = DEFAULT_STORE) -> None:
    """List the experiments that `evaluate` accepts by name, with the table or figure that they repeat.

    Includes your experiments: the files experiments/NAME.yaml in the folder of the store:

        vitalfew experiments --store store
    """
    with explained_errors():
        from vitalfew.flows.pipelines.experiments import find, names

        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("experiment", no_wrap=True)
        table.add_column("repeats", max_width=20)
        table.add_column("purpose")
        for name in names(store):
            settings = find(name, store)[1]
            table.add_row(name, *(escape(str(settings.get(key, ""))) for key in ("repeats", "about")))
        out.print(table)
        out.print(
            "\nTo add an experiment, write a YAML file of the same form: experiments/NAME.yaml next to the store, or "
            "another file:  vitalfew evaluate FILE.yaml --index NAME"
        )
