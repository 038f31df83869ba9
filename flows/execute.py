"""Stages as Prefect tasks, whose shards run on Ray (flows/ray_pool.py), and the artifacts of a run in Prefect's UI.

A task executes the stages of one kind, with its own progress, retries and artifacts. Prefect's caching is off: only the
store knows which shards are finished. Beside the stages' progress, the UI shows the report, its plots, and the costs
beside the estimate.
"""

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from prefect import task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.exceptions import TerminationSignal
from prefect.settings import get_current_settings

from vitalfew.flows.pipelines.estimate import check_cap
from vitalfew.flows.pipelines.run import Outcome, Plan, StageProgress, alone
from vitalfew.flows.pipelines.write_questions import questions_of
from vitalfew.flows.ray_pool import Workers, is_lost, ray_cluster
from vitalfew.flows.server.access import Server, running
from vitalfew.flows.server.reports import report_path
from vitalfew.storage import files
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.costs import find_quote
from vitalfew.tasks.datasets.written import written
from vitalfew.tasks.models.causal.engines.budget import Budget, budget_now, spending
from vitalfew.tasks.report import WrittenReport
from vitalfew.tasks.reports.costs import ledger_of
from vitalfew.tasks.reports.plots.drawing import data_uri
from vitalfew.tasks.reports.shown.gated import markdown_gate
from vitalfew.tasks.reports.shown.markdown import escaped, markdown_report
from vitalfew.tasks.reports.shown.text import one_line
from vitalfew.tasks.stage import Stage

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.gate import Gated

SHOWN = 20
"""Written questions that the UI shows."""
logger = logging.getLogger("vitalfew")
if logger.level == logging.NOTSET:  # a Prefect process: its runs show the messages of this logger
    logger.setLevel(logging.INFO)


def _hear_again(
    lost: "sys.UnraisableHookArgs", default: Callable[["sys.UnraisableHookArgs"], Any] = sys.unraisablehook
) -> None:
    """Send SIGTERM again if its exception was lost. Prefect's handler of SIGTERM raises an exception; Python discards
    it if a destructor is running, and the run would continue until it is killed."""
    if isinstance(lost.exc_value, TerminationSignal):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        default(lost)


sys.unraisablehook = _hear_again


RETRIES = 2
RETRY_SECONDS = 5


def retries_of_stages() -> str:
    """Describe for people which failures within a run are retried."""
    return (
        f"A stage is retried up to {RETRIES} times, after {RETRY_SECONDS} s, if a worker was lost or a disk, network "
        "or memory failed. Errors that you have to correct are not retried."
    )


def _is_transient(task: Any, run: Any, state: Any) -> bool:
    """Retry errors that may pass (a lost worker, a full disk), not errors that the user has to correct."""
    error = state.result(raise_on_failure=False)
    passing = is_lost(error) or isinstance(error, (OSError, MemoryError))
    if not passing or isinstance(error, FileNotFoundError):
        return False
    if run.run_count <= RETRIES:
        left = f"try {run.run_count + 1} of {RETRIES + 1}, in {RETRY_SECONDS} s; finished shards are kept"
        logger.warning("%s is retried (%s), because this may pass: %s", run.name, left, one_line(str(error)))
    return True


@task(
    task_run_name="{name}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=RETRIES,
    retry_delay_seconds=RETRY_SECONDS,
    retry_condition_fn=_is_transient,
    log_prints=False,
)
def run_stages(name: str, stages: Sequence[Stage], run_id: str, pool: Workers) -> list[Manifest]:
    """A flow's stages of one kind: live progress in the terminal and as an artifact of the run, costs as a table."""
    identifier = cast(UUID, create_progress_artifact(0.0, description=f"{name}: starting"))

    def show(percent: float, line: str) -> None:
        update_progress_artifact(identifier, min(percent, 100.0), description=f"{name}: {line}")

    manifests = []
    for number, stage in enumerate(stages, 1):
        label = name if len(stages) == 1 else f"{name} {number}/{len(stages)}"
        with alone(stage, run_id, partial(show, 0.0)), StageProgress(label, show) as progress:
            manifests.append(pool.run(stage, run_id, progress))
        logger.info("%s: done, %s", label, progress.line())
    rows = [row for manifest in manifests for row in cost_rows(manifest)]
    create_table_artifact(rows, key=f"costs-{name.replace('_', '-')}", description=f"Costs of {name}")
    return manifests


_handed: ContextVar[Plan | None] = ContextVar("handed", default=None)


@contextmanager
def handing(plan: Plan) -> Iterator[None]:
    """Within the block a flow of this process does this plan: Prefect passes a flow nothing but its parameters."""
    token = _handed.set(plan)
    try:
        yield
    finally:
        _handed.reset(token)


def handed() -> Plan | None:
    """The plan that the caller of this flow has built; for the flow alone, not for those that it calls."""
    plan = _handed.get()
    _handed.set(None)
    return plan


_budgets: dict[UUID, Budget] = {}
"""The budgets of the runs of this process, by the run's id."""


@contextmanager
def one_cap(most: float | None) -> Iterator[None]:
    """Within the block requests cost at most so many USD, together with the run's earlier tries in this process. Within
    another one it changes nothing: a flow and those that it calls have one cap."""
    context = FlowRunContext.get()
    if most is None or budget_now() or context is None or context.flow_run is None:
        yield
        return
    with spending(_budgets.setdefault(context.flow_run.id, Budget(most))):
        yield


def run_on_ray(plan: Plan, fresh: bool = False) -> Any:
    """Execute a plan within its cap, the stages of one kind as a Prefect task; a finished one needs no cluster. All
    kinds use the same actors, whose start takes seconds. `fresh`: start others for every kind, which frees memory.
    Raises AboveCap."""
    check_cap(plan)
    given, kept = plan.parameters, dict[float, Workers]()

    def execute(stages: Sequence[Stage], run_id: str) -> list[Manifest]:
        if fresh:
            kept.clear()
        pool = kept.setdefault(stages[0].num_gpus, Workers(given.workers))
        manifests: list[Manifest] = run_stages(stages[0].name, stages, run_id, pool)
        return manifests

    with one_cap(given.max_usd), nullcontext() if plan.done() else ray_cluster(given):
        return plan.run(execute)


def cost_rows(manifest: Manifest) -> list[dict[str, Any]]:
    """The ledger of an artifact, a row per shard, for people."""
    return [
        {
            "artifact": manifest.artifact,
            "shard": record.shard,
            "rows": sum(file.rows for file in record.files),
            "tokens": record.cost.tokens,
            "wall seconds": round(record.cost.wall_seconds, 2),
            "CPU seconds": round(record.cost.cpu_seconds, 2),
            "peak MiB": record.cost.peak_memory_bytes >> 20,
            "USD": round(record.cost.usd, 6),
        }
        for record in manifest.shards
    ]


def show_report(written: WrittenReport) -> None:
    """Show the table of an evaluation as Markdown with its page's link or path, and its plots as images."""
    report, page = written.report, files.absolute(written.html)
    server = _ui(Path(report.store))
    copied = f"`vitalfew report {report.run_id}` prints the path of a local copy"
    where = copied if files.is_in_bucket(page) else "open it in a browser on that machine"
    create_markdown_artifact(
        f"{f'[The whole report]({report_path(report.run_id)})' if server else ''}\n\n{markdown_report(report)}\n\n"
        f"Plots and all figures: `{page}` ({where})",
        key="report",
        description=report.experiment,
    )
    for plot in written.plots:
        # As Markdown: below an image artifact, Prefect prints the image's address, here all of its base64.
        picture = f"![{escaped(plot.title)}]({data_uri(plot.svg)})"
        create_markdown_artifact(picture, key=f"plot-{_key(plot.title)}", description=plot.caption)
    logger.info("Report: %s", f"{server.address}{report_path(report.run_id)}" if server else page)


def show_written(store: Path, name: str) -> None:
    """Show the first questions of a set as a table."""
    questions = questions_of(written(store, name))
    columns = ("half", "kind", "text", "answers", "document")
    create_table_artifact(
        [{column: row[column] for column in columns} for row in questions.slice(0, SHOWN).to_pylist()],
        key="questions",
        description=f"{len(questions):,} questions were written; `vitalfew questions show {name} --n {len(questions)}`",
    )


def show_gate(gated: "Gated") -> None:
    """Show a gate's verdict, its figures, what it cost, and the questions that became worse, as Markdown."""
    create_markdown_artifact(markdown_gate(gated.generation, gated.lost, gated.cost), key="gate", description="Gate")
    logger.info(gated.record.said)


def _ui(store: Path) -> Server | None:
    """The `vitalfew ui` of a store if this run is in it."""
    server, address = running(store), get_current_settings().api.url
    return server if server and address == f"{server.address}/api" else None


def show_figures(recipe: str, figures: Sequence[Mapping[str, Any]]) -> None:
    """Show the measurements of a training on the held-out part."""
    create_table_artifact(
        [{**row} for row in figures], key=f"figures-{_key(recipe)}", description="Measured on held-out data"
    )


def show_costs(store: Path, outcome: Outcome, methods: Mapping[str, Sequence[str]] | None = None) -> None:
    """Show a row per artifact of a run: its costs and, if `vitalfew plan` ran before, its estimate.

    `methods`: for an evaluation, the methods that use an artifact, by artifact.
    """
    rows = []
    for manifest in outcome.manifests:
        used = {"methods": ", ".join(methods[manifest.artifact])} if methods else {}
        there = manifest.artifact in outcome.reused
        rows.append({"stage": manifest.stage, **used, **_costs(store, manifest, there)})
    create_table_artifact(
        rows, key="costs", description="Costs of every stage and its estimate; USD at the prices in prices.yaml"
    )


def _costs(store: Path, manifest: Manifest, there: bool) -> dict[str, Any]:
    paid = ledger_of(store, manifest)
    quote = None if there else find_quote(store, manifest.artifact.split("/")[1])
    return {
        "made by": "an earlier run" if there else "this run",
        "rows": sum(manifest.rows.values()),
        "tokens": paid["tokens"].sum(),
        "estimated tokens": quote.tokens if quote else "",
        "wall s": round(paid["wall_seconds"].sum(), 2),
        "estimated wall s": round(quote.wall_seconds, 2) if quote else "",
        "USD": round(paid["usd"].sum(), 6),
        "estimated USD": round(quote.usd, 6) if quote else "",
        "artifact": manifest.artifact,
    }


def _key(title: str) -> str:
    """A valid key of a Prefect artifact: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
