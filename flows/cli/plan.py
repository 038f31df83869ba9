"""The command `plan`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from vitalfew.configs.loading import ConfigError, build
from vitalfew.configs.schema import Execution, IndexCorpus
from vitalfew.flows.cli.terminal import (
    DEFAULT_STORE,
    ConfigOption,
    RunnerOption,
    SetOption,
    StoreOption,
    VerboseOption,
    WorkersOption,
    err,
    explained_errors,
    layers,
    out,
    prepare,
)
from vitalfew.tasks.registry import METHODS, UnknownName


def plan(
    what: Annotated[
        list[str],
        typer.Argument(metavar="WHAT", help="DATASET … as `index` takes them, or an EXPERIMENT as `evaluate` does."),
    ],
    index: Annotated[
        str | None, typer.Option("--index", metavar="NAME", help="Of an experiment: the index that it searches.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    config: ConfigOption = None,
    assignments: SetOption = None,
    workers: WorkersOption = None,
    runner: RunnerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Quote what `index` or `evaluate` would take, before it is done: tokens, time, USD.

    Of data sets, stage by stage: looks through the sources for some seconds and runs the stages on a sample of some
    hundred passages. Exit status 1 if the disk has too little room.

        vitalfew plan dpr_wiki:psgs_w100.tsv.gz --set encode.context=late --workers 16

    Of an experiment, method by method: prompts, tokens in and out. Tries up to 32 of its questions in a temporary
    folder, and learns from the answers that the store has. What is finished costs nothing. A server is sent nothing:
    what its model would answer is assumed, and the basis said.

        vitalfew plan quickstart --index wiki --set questions.sample=500

    After the run, `vitalfew costs` shows quote and truth side by side (SQL: `ledger`).
    """
    prepare(verbose)
    with explained_errors():
        given = {"store": store, "workers": workers, "runner": runner and runner.value}
        if _is_experiment(what, index, store):
            if config:
                raise ConfigError(
                    "--config has an index's settings; set those of an experiment by --set, or in its file"
                )
            _plan_evaluation(what[0], layers(None, assignments, index=index, **given))
        else:
            _plan_index(layers(config, assignments, datasets=what, name="planned", **given))


def _is_experiment(what: list[str], index: str | None, store: Path) -> bool:
    """Raises UnknownName for what is neither a data set nor an experiment."""
    from vitalfew.flows.pipelines.experiments import names

    is_source = ":" in what[0] or what[0] in METHODS["dataset"]
    if len(what) > 1 or (is_source and not index):
        if index:
            raise ConfigError(f"--index belongs to one experiment; there are {len(what)} names: {', '.join(what)}")
        return False
    known = names(store)
    if not index and what[0] not in known and not what[0].endswith((".yaml", ".yml")):
        raise UnknownName("experiment", what[0], known, "a data set is FORMAT:PATH")
    return True


def _plan_evaluation(experiment: str, given: list[dict[str, Any]]) -> None:
    from vitalfew.flows.pipelines.evaluate import EvaluationPlan
    from vitalfew.flows.pipelines.experiments import evaluation, find
    from vitalfew.flows.pipelines.graph import graph
    from vitalfew.flows.pipelines.progress import StageProgress
    from vitalfew.flows.pipelines.quote.evaluation import quote_evaluation

    name, settings = find(experiment, given[-1].get("store", DEFAULT_STORE))
    plan = graph(evaluation(name, settings, *given))
    assert isinstance(plan, EvaluationPlan)
    with StageProgress("trial", unit="stages") as progress:
        quoted = quote_evaluation(plan, progress.reach)
    _show_evaluation(plan.parameters, quoted)


def _plan_index(given: list[dict[str, Any]]) -> None:
    from vitalfew.flows.pipelines.graph import graph
    from vitalfew.flows.pipelines.quote.quote import quote

    parameters = build(IndexCorpus, *given)
    with err.status("Looking through the sources and trying a sample …"):
        quoted = quote(graph(parameters))
    _show_index(parameters, quoted)
    quoted.check()


def _show_index(parameters: IndexCorpus, quoted: Any) -> None:
    """Print a quote, stage by stage, with its basis."""
    survey = quoted.survey
    read = "all" if survey.complete else f"{survey.share:.1%}"
    about = "" if survey.complete else "about "
    out.print(f"Read {read} of the sources: {about}{survey.passages:,.0f} passages, {survey.questions:,.0f} questions.")
    if quoted.known:
        out.print(
            f"The store has the vectors of {quoted.known:.1%} of the passages already: they are not encoded again."
        )
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("stage")
    for column in ("rows", "tokens", "wall s", "CPU s", "peak MiB", "disk MiB", "USD"):
        table.add_column(column, justify="right")
    for quote in quoted.stages:
        if quote.stage in quoted.there:
            table.add_row(quote.stage, "there already")
        else:
            table.add_row(
                quote.stage,
                f"{quote.rows:,}",
                f"{quote.tokens:,}" if quote.tokens else "",
                f"{quote.wall_seconds:,.1f}",
                f"{quote.cpu_seconds:,.1f}",
                f"{quote.peak_memory_bytes >> 20:,}",
                f"{quote.disk_bytes / 2**20:,.1f}",
                f"{quote.usd:.5f}",
            )
    out.print(table)
    workers = quoted.stages[0].workers
    out.print(
        f"With {workers} {'worker' if workers == 1 else 'workers'} ({parameters.runner}): "
        f"{_duration(quoted.wall_seconds)}, start-up of {quoted.start_seconds:,.0f} s included; "
        f"{sum(quote.usd for quote in quoted.stages):.4f} USD at configs/prices.yaml; "
        f"{quoted.disk_bytes / 2**30:,.2f} GiB of the {quoted.free_bytes / 2**30:,.1f} GiB that are free."
    )


def _show_evaluation(parameters: Execution, quoted: Any) -> None:
    """Print the quote of an evaluation, method by method, with its basis."""
    for part in quoted.parts:
        out.print(f"[b]{escape(part.name)}[/]: {part.questions:,} questions")
        out.print(_methods(part.methods), "")
    if quoted.is_open:
        out.print("Which settings will be chosen is open: those that take the most tokens are quoted.")
    out.print("A method's figures are without what an earlier one takes already.")
    for basis in quoted.bases:
        out.print(f"- {escape(basis)}", highlight=False)
    out.print(
        f"With {quoted.workers} {'worker' if quoted.workers == 1 else 'workers'} ({parameters.runner}): "
        f"{_duration(quoted.wall_seconds)}, start-up of {quoted.start_seconds:,.0f} s included; "
        f"{sum(row.usd for row in quoted.methods):.4f} USD at configs/prices.yaml."
    )


_QUOTED = {
    "prompts": "prompts",
    "tokens_in": "tokens in",
    "tokens_out": "out",
    "critic_tokens": "critic's",
    "other_tokens": "others'",
    "wall_seconds": "wall s",
    "usd": "USD",
}


def _methods(rows: Sequence[Any]) -> Table:
    """The methods of a quote, with their sum; a column of tokens that none has is left out."""
    shown = [name for name in _QUOTED if not name.endswith("_tokens") or any(getattr(row, name) for row in rows)]
    table = Table(box=None, header_style="bold", pad_edge=False, show_footer=True)
    table.add_column("method", "together")
    for name in shown:
        table.add_column(_QUOTED[name], _quoted(name, sum(getattr(row, name) for row in rows)), justify="right")
    for row in rows:
        cells = ["there already"] if row.there else [_quoted(name, getattr(row, name)) for name in shown]
        table.add_row(escape(row.method), *cells)
    return table


def _quoted(name: str, value: float) -> str:
    return f"{value:.5f}" if name == "usd" else f"{value:,.1f}" if name == "wall_seconds" else f"{value:,}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min"
