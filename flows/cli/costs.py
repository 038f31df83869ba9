"""The commands `plan` and `costs`: what a run will take, and what runs took."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.filesize import decimal
from rich.markup import escape
from rich.table import Column, Table
from typer import Argument

from vitalfew.configs.loading import ConfigError, build
from vitalfew.configs.schema import IndexCorpus, RunnerName
from vitalfew.configs.writing import WriteQuestions
from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import err, out, prepare, print_table, table
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.registry import METHODS, UnknownName

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from vitalfew.flows.pipelines.estimate import Quoted, QuotedStage
    from vitalfew.flows.pipelines.run import Plan
    from vitalfew.storage.costs import Quote


NOTHING = "Everything is in the store: a run has nothing to do, and costs nothing."


def plan(
    what: Annotated[
        list[str],
        Argument(metavar="WHAT", help="DATASET …, as for `index`; EXPERIMENT, as for `evaluate`; or `questions`."),
    ],
    index: options.Index = None,
    store: options.Store = options.STORE,
    config: options.Config = None,
    model: options.Model = None,
    assignments: options.StepSettings = None,
    workers: options.Workers = None,
    runner: options.Runner = None,
    verbose: options.Verbose = False,
) -> None:
    """Estimate tokens, time and cost of a command.

    The command is `index`, `evaluate` or `questions write`. Runs a small sample in a temporary folder, and multiplies
    what a row takes by the number of rows. The estimate is within about a third of what the run then takes.

    For data sets, the estimate is by stage. Reads the sources for a few seconds, and tries the missing stages on up to
    64 passages, for some 15 seconds. Exits with status 1 if the disk has too little space.

        vitalfew plan dpr_wiki:psgs_w100.tsv.gz --workers 16

    For an experiment, the estimate is by stage and model. Tries up to 32 questions, for some 30 seconds, and uses the
    answers that are in the store. Sends nothing to a server: the answers of its model are estimated, and the basis of
    the estimate is printed.

        vitalfew plan quickstart --index wiki --set questions.sample=500

    For `questions`, tries some passages, and sends nothing to a server either.

        vitalfew plan questions --index handbook --set write.n=500

    Finished work costs nothing. After the run, `vitalfew costs` compares the estimate with the actual
    costs (SQL: `ledger`).
    """
    prepare(verbose)
    from vitalfew.flows.pipelines.experiments import evaluation, find
    from vitalfew.flows.pipelines.graph import graph

    given = {"store": store, "workers": workers, "runner": runner}
    writes = what == ["questions"]
    assignments = [*options.of_model(model, "write" if writes else "generate"), *(assignments or [])]
    settings = options.layers(config, assignments, **given)
    parameters: Any
    if writes:
        parameters = build(WriteQuestions, *options.with_index([*settings, {"index": index} if index else {}]))
    elif _is_experiment(what, index, store):
        if config:
            raise ConfigError(
                "--config is for the settings of an index; for an experiment, use --set or change its file"
            )
        parameters = evaluation(*find(what[0], store), *settings, {"index": index} if index else {})
        options.tell_index(parameters)
    else:
        parameters = build(IndexCorpus, *settings, {"datasets": what, "name": "planned"})
    quoted = _show(graph(parameters))
    quoted.check()


def _is_experiment(what: list[str], index: str | None, store: Path) -> bool:
    """Raises UnknownName for what is neither a data set nor an experiment."""
    from vitalfew.flows.pipelines.experiments import names

    is_source = ":" in what[0] or what[0] in METHODS["dataset"]
    if len(what) > 1 or (is_source and not index):
        if index:
            raise ConfigError(f"--index needs exactly one experiment, got {len(what)} names: {', '.join(what)}")
        return False
    known = names(store)
    if not index and what[0] not in known and not what[0].endswith((".yaml", ".yml")):
        raise UnknownName("experiment", what[0], known, "for a data set, write FORMAT:PATH")
    return True


def _show(plan: "Plan") -> "Quoted":
    """Estimate a plan with the runner that its run will take (this process, if there is nothing to do), and print the
    estimate with its basis."""
    from vitalfew.flows.pipelines.estimate import quote
    from vitalfew.flows.pipelines.runner import runner_for
    from vitalfew.flows.server.access import is_named

    runner: RunnerName = "serial" if plan.done() else runner_for(plan, is_named())
    plan.parameters = plan.parameters.model_copy(update={"runner": runner})
    with err.status("Planning …") as status:
        quoted = quote(plan, lambda text: status.update(f"Planning: {escape(text)} …"))
    for part in quoted.parts or [quoted]:
        for line in part.headings:
            out.print(escape(line))
        _print_stages(part.rows)
    if not quoted.stages:
        out.print(NOTHING)
        return quoted
    for basis in quoted.bases:
        out.print(f"- {escape(basis)}")
    needs, free = quoted.disk_bytes, quoted.free_bytes
    room = "" if free is None else f"; {decimal(needs)} of {decimal(free)} free disk space"
    prices = os.environ.get("VITALFEW_PRICES") or "configs/prices.yaml"
    requests = f", {quoted.requests_usd:.4f} of it for requests to servers" if quoted.requests_usd else ""
    out.print(
        f"With {quoted.workers} {'worker' if quoted.workers == 1 else 'workers'} ({runner}): "
        f"{_duration(quoted.wall_seconds)}, including {quoted.start_seconds:,.0f} s for start-up; "
        f"{sum(each.usd for each in quoted.stages):.4f} USD at the prices in {prices}{requests}{room}."
    )
    _say_unpriced(stage.model_name for stage in plan.stages)
    return quoted


def _say_unpriced(models: Iterable[str | None]) -> None:
    from vitalfew.storage.costs import unpriced, without_price

    if said := without_price(unpriced(models)):
        out.print(escape(said), style="yellow")


_FIGURES = ("rows", "tokens", "wall s", "CPU s", "peak MiB", "disk MiB", "USD")


def _print_stages(rows: Sequence["QuotedStage"]) -> None:
    """Print the stages of an estimate, by stage and model."""
    groups: dict[tuple[str, str], list[Quote]] = {}
    for row in rows:
        groups.setdefault((row.stage, row.model), []).extend([row.quote] if row.quote else [])
    shown = table("stage", "model", figures=_FIGURES)
    for (stage, model), quotes in groups.items():
        figures = [
            f"{sum(quote.rows for quote in quotes):,}",
            f"{tokens:,}" if (tokens := sum(quote.tokens for quote in quotes)) else "",
            f"{sum(quote.wall_seconds for quote in quotes):,.1f}",
            f"{sum(quote.cpu_seconds for quote in quotes):,.1f}",
            f"{max((quote.peak_memory_bytes for quote in quotes), default=0) >> 20:,}",
            f"{sum(quote.disk_bytes for quote in quotes) / 2**20:,.1f}",
            _usd(sum(quote.usd for quote in quotes)),
        ]
        shown.add_row(stage, escape(model), *(figures if quotes else ["already done"]))
    print_table(shown, "disk MiB", "peak MiB", "wall s")


def _figure(head: str, value: float) -> str:
    """A figure as the column of that heading shows it."""
    if head.startswith("USD"):
        return _usd(value)
    if head == "GPU kJ":
        return f"{value / 1000:,.2f}"
    return f"{value:,.1f}" if head.endswith(" s") else f"{value:,}"


def _usd(value: float) -> str:
    """In cents, or with two digits that matter where it is less than one."""
    from vitalfew.tasks.reports.shown.text import significant

    if 0 < value < 0.00001:
        return "< 0.00001"
    return significant(value, 2) if value < 0.01 else f"{value:,.2f}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min"


_MEASURES = """sum(s.tokens)::BIGINT, sum(s.wall_seconds), sum(s.cpu_seconds), sum(s.gpu_seconds), sum(s.gpu_joules),
    sum(s.usd), sum(s.usd_nothing_known)"""
_HEADS = ("tokens", "wall s", "CPU s", "GPU s", "GPU kJ", "USD\npaid", "USD,\nwithout\ncache",
          "USD per\n1,000\nquestions")  # fmt: skip
_PER_THOUSAND = """SELECT s.method, 1000 * sum(s.usd) / any_value(asked.questions) FROM (
    SELECT method, run_id, sum(usd_nothing_known) AS usd FROM spending_by_method($1) GROUP BY ALL) AS s
    JOIN (SELECT m.method, sum(counted.n) AS questions FROM methods AS m
        JOIN (SELECT fingerprint, count(*) AS n FROM asked GROUP BY ALL) AS counted USING (fingerprint)
        WHERE m.table_name = 'asked' AND m.run_id IN (SELECT run_id FROM spending_by_method($1)) GROUP BY ALL
    ) AS asked USING (method) GROUP BY ALL"""
"""By method, the cost without cache of 1,000 questions."""


def costs(
    run: Annotated[
        str, Argument(metavar="RUN", help="A run's id or a prefix of it, or the name of an experiment or index.")
    ] = "",
    store: options.Store = options.STORE,
) -> None:
    """Show what runs cost, and the estimates.

    Costs are by stage and model, by method, day, run and node. Uses the prices in configs/prices.yaml on the day of the
    work. Includes the costs of artifacts that were removed later, and of shards that were cancelled. Work that several
    methods of a run share is split among them equally. The cost without cache is as if no answer, reading or vector
    were in the store; USD per 1,000 questions are of it. In SQL: spending(), spending_by_method(), quoted() and the
    table `costs`.

        vitalfew costs quickstart
    """
    from vitalfew.storage.catalog.database import connect

    with connect(store) as connection:
        stages = _spending(connection, run, "s.stage, s.model", "sum(s.usd) DESC")
        if not stages:
            raise InputError(
                f"there is no run {run!r} with costs in this store; list the runs with `vitalfew runs`"
                if run
                else "this store has no costs yet; start with `vitalfew index DATASET --name NAME`"
            )
        out.print("[bold]By stage and model[/]", _paid(("stage", "model"), stages, total=True), "", sep="\n")
        _say_unpriced(model for _, model, *_ in stages)
        methods = _spending(connection, run, "s.method", "sum(s.usd) DESC", "spending_by_method")
        if len(methods) > 1:
            per_thousand = dict(connection.execute(_PER_THOUSAND, [run]).fetchall())
            methods = [(*row, per_thousand.get(row[0])) for row in methods]
            out.print("[bold]By method[/]", _paid(("method",), methods), "", sep="\n")
        days = _spending(connection, run, "s.day", "s.day")
        out.print("[bold]By day[/]", _paid(("day (UTC)",), days), "", sep="\n")
        runs = _spending(connection, run, "s.run_id, runs.name", "s.run_id")
        out.print("[bold]By run[/]", _paid((Column("run", no_wrap=True), "for"), runs), sep="\n")
        nodes = _spending(connection, run, "s.node", "s.node NULLS LAST")
        if len(nodes) > 1:
            out.print("", _paid(("node",), [(name or "not recorded", *rest) for name, *rest in nodes]))
        quoted_and_actual(connection, run)


def _spending(
    connection: "DuckDBPyConnection", run: str, by: str, order: str, macro: str = "spending"
) -> list[tuple[Any, ...]]:
    return connection.execute(
        f"SELECT {by}, {_MEASURES} FROM {macro}(?) AS s LEFT JOIN runs USING (run_id) GROUP BY {by} ORDER BY {order}",
        [run],
    ).fetchall()


def _paid(keys: tuple[Column | str, ...], rows: list[tuple[Any, ...]], total: bool = False) -> Table:
    """Make a table of costs, without the GPU columns if no GPU was used. A row has the keys, then the measures."""
    measured = [[value or 0 for value in row[len(keys) :]] for row in rows]
    sums = [sum(values) for values in zip(*measured, strict=True)]
    kept = [place for place, summed in enumerate(sums) if summed or "GPU" not in _HEADS[place]]
    totals = (_figure(_HEADS[at], sums[at]) if total else "" for at in kept)
    figures = (Column(_HEADS[at], each, justify="right", no_wrap=True) for at, each in zip(kept, totals, strict=True))
    shown = table(*keys, *figures, show_footer=total)
    if total:
        shown.columns[0].footer = "total"
    for row, values in zip(rows, measured, strict=True):
        cells = (escape("" if key is None else str(key)) for key in row[: len(keys)])
        # work that no method asked for, such as indexing, has no cost of a question
        of_row = (_figure(_HEADS[at], values[at]) if values[at] or "1,000" not in _HEADS[at] else "" for at in kept)
        shown.add_row(*cells, *of_row)
    return shown


def quoted_and_actual(connection: "DuckDBPyConnection", run: str) -> None:
    """Print what the artifacts of a run were quoted and took, by stage, if any was quoted."""
    pairs = ", ".join(f"{sum.format('quoted_')}, {sum.format('')}" for sum in _LEDGER.values())
    rows = connection.execute(
        f"SELECT stage, {pairs} FROM (SELECT fingerprint, row_number() OVER () AS place FROM quoted(?)) "
        "JOIN ledger USING (fingerprint) GROUP BY stage ORDER BY min(place)",
        [run],
    ).fetchall()
    if not rows:
        return
    shown = table(Column("stage", no_wrap=True), figures=_LEDGER, padding=(0, 1, 0, 0))
    for stage, *figures in rows:
        sides = zip(figures[::2], figures[1::2], strict=True)
        shown.add_row(stage, *(f"{_short(quoted)} → {_short(true)}" for quoted, true in sides))
    out.print("\nEstimate → actual:")
    print_table(shown, "peak MiB", "rows")


_LEDGER = {
    "rows": "sum({}rows)",
    "tokens": "sum({}tokens)",
    "wall s": "sum({}wall_seconds)",
    "CPU s": "sum({}cpu_seconds)",
    "peak MiB": "max({}peak_memory_bytes) / 1048576",
    "disk MiB": "sum({}disk_bytes) / 1048576",
    "USD": "sum({}usd)",
}


def _short(value: float | None) -> str:
    if value is None:  # the size of an artifact that was removed later
        return "removed"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
