"""The plan of a run, with all stages known before anything runs, and the outcome.

A plan is built once per run (flows/pipelines/graph.py). The same plan answers whether there is anything to do, gives
the quote, checks the disk, and is executed. It reads the manifests of finished stages in the store only once.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from vitalfew.configs.schema import Execution
from vitalfew.flows.pipelines.progress import StageProgress
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.catalog import database as catalog
from vitalfew.storage.runs import Run, recorded_run
from vitalfew.tasks.stage import Stage

Execute = Callable[[Sequence[Stage], str], list[Manifest]]
"""Executes stages of one kind for a run (its id), serially or as a Prefect task on Ray, and returns their manifests."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: its record, its manifests in the order of their stages, and the names of the artifacts that
    existed before."""

    run: Run
    manifests: list[Manifest]
    reused: set[str]

    def new(self) -> list[Manifest]:
        """The manifests of the artifacts that this run wrote."""
        return [manifest for manifest in self.manifests if manifest.artifact not in self.reused]


class Plan:
    """The stages of a run, in a possible order of execution. Its pickle has neither models nor files.

    A pipeline subclasses it and adds checks between the stages and names to save at the end.
    """

    flow: ClassVar[str]
    """The name of the flow in the record of a run."""

    def __init__(self, parameters: Execution, name: str, stages: Iterable[Stage]) -> None:
        """`name`: of the index or experiment the run is for; `stages`: in any order."""
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
        """Whether all artifacts exist, so that no workers need to start."""
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

    def run(self, execute: Execute) -> Outcome:
        """Execute the missing stages, step by step. Existing artifacts are reused."""
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
            self._manifests |= {manifest.artifact: manifest for manifest in execute(missing, run.run_id)}
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
        with stage.artifact.locked(), StageProgress(stage.name) as progress:
            manifests.append(stage.run(run_id, progress.add, progress.expect))
    return manifests
