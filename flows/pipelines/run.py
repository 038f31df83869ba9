"""The plan of a run, with all stages known before anything runs, its progress, and the outcome."""

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from vitalfew.configs.schema import Execution
from vitalfew.flows.pipelines.paying import stopped
from vitalfew.storage import files, version
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.catalog import database as catalog
from vitalfew.storage.runs import Run, read_runs, recorded_run
from vitalfew.tasks.models.causal.engines.budget import CapReached, budget_now, capped, dollars
from vitalfew.tasks.stage import Stage

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.gate import Gated

logger = logging.getLogger("vitalfew")
console = Console(stderr=True)
_showing: ContextVar[bool] = ContextVar("showing", default=True)

LOG_EVERY = 10.0
HOOK_EVERY = 3.0


@contextmanager
def showing(bars: bool) -> Iterator[None]:
    """Within the block, show progress bars or none."""
    token = _showing.set(bars)
    try:
        yield
    finally:
        _showing.reset(token)


class StageProgress:
    """Counts the rows and tokens of one stage: `with StageProgress("encode", total) as progress: progress.add(...)`.

    `hook(percent, line)` is called every few seconds; `line` has rows, tokens per second and the time left, and the
    rows of every node if several nodes of a cluster have worked.
    """

    def __init__(self, stage: str, hook: Callable[[float, str], None] | None = None) -> None:
        self.stage, self.hook = stage, hook
        self.total = self.rows = self.tokens = 0
        self.by_node: Counter[str] = Counter()
        """Rows of every node that has worked on this, or does so now."""
        self._at_work: Collection[str] = ()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        self._began = self._logged = self._hooked = time.monotonic()
        if _showing.get() and (sys.stderr.isatty() or console.is_jupyter):
            self._bar = Progress(
                TextColumn("{task.description:<8}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("rows"),
                TextColumn("{task.fields[speed]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=console,
            )
            self._task = self._bar.add_task(self.stage, total=None, speed="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if isinstance(error, CapReached):
            error.rows = self.rows
        if error is None and self.hook:
            self.hook(100.0, self._whole_line())

    def expect(self, total: int) -> None:
        """Restart the count, towards `total` rows."""
        self.total, self.rows, self.tokens = total, 0, 0
        self.by_node.clear()
        self._began = time.monotonic()
        if self._bar:
            self._bar.reset(self._task, total=total, speed="")

    def at_work(self, nodes: Collection[str]) -> None:
        """The nodes of a cluster that work on it now."""
        self._at_work = nodes
        self.by_node.update(dict.fromkeys(nodes, 0))
        self.add(0, 0)

    def add(self, rows: int, tokens: int, node: str = "") -> None:
        """Add to the count, and to the count of a cluster's node if one is named."""
        self.rows += rows
        self.tokens += tokens
        if node:
            self.by_node[node] += rows
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, advance=rows, speed=", ".join(filter(None, (self._speed(), self._nodes()))))
        elif now - self._logged >= LOG_EVERY:
            self._logged = now
            logger.info("%s: %s", self.stage, self._whole_line())
        if self.hook and now - self._hooked >= HOOK_EVERY:
            self._hooked = now
            self.hook(100.0 * self.rows / self.total if self.total else 0.0, self._whole_line())

    def line(self) -> str:
        """'1,024 of 9,179 rows, 16,204 tokens/s, 38 s left, 3 nodes'."""
        parts = [f"{self.rows:,} of {self.total:,} rows" if self.total else f"{self.rows:,} rows"]
        if self.tokens:
            parts.append(self._speed())
        if 0 < self.rows < self.total:
            left = (time.monotonic() - self._began) * (self.total - self.rows) / self.rows
            parts.append(f"{left:,.0f} s left")
        return ", ".join([*parts, *filter(None, [self._nodes()])])

    def _whole_line(self) -> str:
        """With the rows of every node: '…, 2 nodes (ann/1f09ac 620 rows; bob/77e0d2 9 rows, idle)'."""
        if not self._nodes():
            return self.line()
        of_nodes = (
            f"{node} {rows:,} rows{'' if node in self._at_work or not self._at_work else ', idle'}"
            for node, rows in sorted(self.by_node.items())
        )
        return f"{self.line()} ({'; '.join(of_nodes)})"

    def _nodes(self) -> str:
        """How many nodes work on it, or have worked where none does now; nothing where it has always been one."""
        at_work = len(self._at_work or self.by_node)
        return f"{at_work} node{'s' * (at_work != 1)}" if len(self.by_node) > 1 else ""

    def _speed(self) -> str:
        seconds = time.monotonic() - self._began
        return f"{self.tokens / seconds:,.0f} tokens/s" if self.tokens and seconds > 0 else ""


Execute = Callable[[Sequence[Stage], str], list[Manifest]]
"""Executes stages of one kind for a run (its id), serially or as a Prefect task on Ray, and returns their manifests."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: its record, its manifests in the order of their stages, and the names of the artifacts that
    existed before."""

    run: Run
    manifests: list[Manifest]
    reused: set[str]
    gated: "Gated | None" = field(default=None, kw_only=True)
    """What the gate of an index said of it; None without one."""

    def new(self) -> list[Manifest]:
        """The manifests of the artifacts that this run wrote."""
        return [manifest for manifest in self.manifests if manifest.artifact not in self.reused]


class Plan:
    """The stages of a run, in a possible order of execution. Its pickle has neither models nor files.

    A pipeline subclasses it and adds checks between the stages and names to save at the end.
    """

    flow: ClassVar[str]
    """The name of the flow in the record of a run."""
    quoted_usd: float | None = None
    """The USD that its requests to servers will cost, once that was compared with `max_usd`; None: not estimated."""
    is_allowed = False
    """Its estimate was compared with `max_usd`."""

    def __init__(self, parameters: Execution, name: str, stages: Iterable[Stage]) -> None:
        """`name`: of the index or experiment the run is for; `stages`: in any order. Raises OtherVersion."""
        version.check(parameters.store)
        self.parameters = parameters
        self.name = name
        self.steps = in_order(stages)
        self._manifests: dict[str, Manifest] = {}

    @property
    def store(self) -> Path:
        return self.parameters.store

    @property
    def stages(self) -> list[Stage]:
        return [stage for step in self.steps for stage in step]

    def manifest(self, stage: Stage) -> Manifest | None:
        """The manifest of a finished stage, else None; it is read, and its files are checked, once per plan."""
        name = stage.artifact.name
        if name not in self._manifests and (manifest := stage.manifest()):
            self._manifests[name] = manifest
        return self._manifests.get(name)

    def missing(self) -> list[Stage]:
        """The stages that are not finished, or whose files are damaged."""
        return [stage for stage in self.stages if not self.manifest(stage)]

    def done(self) -> bool:
        """Return whether all artifacts exist, so that no workers need to start."""
        return not self.missing()

    def room(self) -> None:
        """Raise DoesNotFit if the disk has no room for the missing artifacts. By default nothing is checked: an
        evaluation writes little beside its index."""

    def check(self, stage: Stage, manifest: Manifest) -> None:
        """Raise an error if the next stages cannot work with the result of a stage."""

    def methods(self) -> dict[str, dict[str, str]]:
        """For an evaluation: by method and table, the artifact that holds the rows."""
        return {}

    def save(self, run: Run) -> None:
        """Store the result of the run, when all its stages are finished."""

    def before(self) -> Outcome | None:
        """For a plan that is done: the outcome of the run that did the same last, where another would add nothing."""
        return None

    def run(self, execute: Execute) -> Outcome:
        """Execute the missing stages, step by step. Existing artifacts are reused. Raises CapReached, once all answers
        that were paid for are kept."""
        with capped(self.parameters.max_usd):
            outcome = self._run(execute)
            if budget := budget_now():
                paid, most = dollars(budget.paid()), dollars(budget.most)
                logger.info("%s: %s were paid for requests to servers, of %s at most", self.name, paid, most)
        return outcome

    def _run(self, execute: Execute) -> Outcome:
        config = self.parameters.model_dump(mode="json")
        names = [stage.artifact.name for stage in self.stages]
        reused = {*names} - {stage.artifact.name for stage in self.missing()}
        try:
            with recorded_run(self.store, self.flow, self.name, config, names, self.methods()) as run:
                for step in self.steps:
                    self._do(step, execute, run)
                self.save(run)
        finally:
            catalog.refresh(self.store)  # fails no run and hides no error
        return Outcome(run, [self._manifests[name] for name in names], reused)

    def _do(self, step: Sequence[Stage], execute: Execute, run: Run) -> None:
        missing = [stage for stage in step if not self.manifest(stage)]
        if missing:
            try:
                self._manifests |= {manifest.artifact: manifest for manifest in execute(missing, run.run_id)}
            except CapReached as error:
                raise stopped(error, self.stages, missing, run.run_id, self.quoted_usd) from None
        for stage in step:
            self.check(stage, self._manifests[stage.artifact.name])


def in_order(stages: Iterable[Stage]) -> list[list[Stage]]:
    """Groups of stages with one name, every artifact once, so that a model is loaded once for all of them.

    A stage comes after the stages of any method whose artifacts it reads (`inputs`); otherwise the given order is kept.
    Raises ValueError if stages read one another.
    """
    distinct = {stage.artifact.name: stage for stage in stages}
    before: dict[str, list[str]] = {stage.name: [] for stage in distinct.values()}
    for stage in distinct.values():
        before[stage.name] += [distinct[read.name].name for read in stage.inputs.values() if read.name in distinct]
    order: list[str] = []

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            raise ValueError(f"stages form a cycle: {' → '.join([*trail, name])}")
        if name not in order:
            for earlier in before[name]:
                visit(earlier, (*trail, name))
            order.append(name)

    for name in before:
        visit(name, ())
    return [[stage for stage in distinct.values() if stage.name == name] for name in order]


def run_serially(stages: Sequence[Stage], run_id: str) -> list[Manifest]:
    """Execute stages in this process alone, with the same result."""
    manifests = []
    for stage in stages:
        with alone(stage, run_id), StageProgress(stage.name) as progress:
            manifests.append(stage.run(run_id, progress.add, progress.expect))
    return manifests


@contextmanager
def alone(stage: Stage, run_id: str, report: Callable[[str], None] = lambda line: None) -> Iterator[None]:
    """Hold the lock of a stage's artifact for a run (its id). If another run works on it, log that this one waits, and
    call `report` with that line."""
    if files.is_locked(stage.artifact.lock):
        line = f"waits for {_worker(stage.artifact, run_id)}, which works on the same {stage.artifact.table}"
        logger.warning("%s: %s", stage.name, line)
        report(line)
    with stage.artifact.locked():
        yield


def _worker(artifact: Artifact, run_id: str) -> str:
    """The run that has worked longest on what an artifact is for, for people."""
    for run in read_runs(artifact.store):
        if run.state == "running" and run.run_id != run_id and artifact.name in run.fingerprints:
            return f"the run {run.name} ({run.run_id})"
    return "another process"
