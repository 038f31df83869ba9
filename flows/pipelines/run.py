"""What a run is going to do: its stages, all known before anything runs, and what came of them.

A plan is built once per run (flows/pipelines/graph.py) and travels from there: to the question whether there is
anything to do, to the quote, to the check of the disk, and to whoever executes it. What it reads of the store to answer
one of them it does not read again for the next.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from configs.schema import Execution
from flows.pipelines.progress import StageProgress
from storage.artifacts import Manifest
from storage.catalog import database as catalog
from storage.runs import Run, recorded_run
from tasks.stage import Stage

Execute = Callable[[Sequence[Stage], str], list[Manifest]]
"""Does stages of one kind for a run (its id), and returns the manifests: serially, or as a Prefect task on Ray."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to: its record, its manifests in the order of their stages, and the names of the artifacts that
    were there already."""

    run: Run
    manifests: list[Manifest]
    reused: set[str]

    def new(self) -> list[Manifest]:
        """Of what this run did itself."""
        return [manifest for manifest in self.manifests if manifest.artifact not in self.reused]


class Plan:
    """The stages of a run, in an order in which they can be done. Can be pickled: neither models nor files travel.

    A pipeline subclasses it and says what it has besides: checks between the stages, names to save at the end.
    """

    flow: ClassVar[str]
    """As the record of a run names it."""

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
        """A stage's manifest if there is nothing to do; read, and its files looked at, once per plan."""
        name = stage.artifact.name
        if name not in self._manifests and (manifest := stage.manifest()):
            self._manifests[name] = manifest
        return self._manifests.get(name)

    def missing(self) -> list[Stage]:
        """The stages that are not done yet, or whose files were damaged since."""
        return [stage for stage in self.stages if not self.manifest(stage)]

    def done(self) -> bool:
        """Whether every artifact is there already, so that no workers need to be started."""
        return not self.missing()

    def room(self) -> None:
        """Raise DoesNotFit where the disk has no room for what is missing. By default there is nothing to ask: what an
        evaluation writes is small beside its index."""

    def check(self, stage: Stage, manifest: Manifest) -> None:
        """Raise where a stage came to something that the next ones cannot work with."""

    def methods(self) -> dict[str, dict[str, str]]:
        """Of an evaluation, by method and table the artifact that holds its rows."""
        return {}

    def save(self, run: Run) -> None:
        """Keep what the run was for, once all its stages are done."""

    def run(self, execute: Execute) -> Outcome:
        """Do what is missing, step by step. What is there already is not done again."""
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
    """Stages of one name together, each artifact once: a model is loaded once for all that need it.

    A stage comes after those whose artifacts it reads (`inputs`), whichever method's they are, and otherwise in the
    order in which it was named. Raises ValueError where stages read each other.
    """
    distinct = {stage.artifact.name: stage for stage in stages}
    before: dict[str, list[str]] = {stage.name: [] for stage in distinct.values()}
    for stage in distinct.values():
        before[stage.name] += [distinct[read.name].name for read in stage.inputs.values() if read.name in distinct]
    order: list[str] = []

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            raise ValueError(f"stages that read each other: {' → '.join([*trail, name])}")
        if name not in order:
            for earlier in before[name]:
                visit(earlier, (*trail, name))
            order.append(name)

    for name in before:
        visit(name, ())
    return [[stage for stage in distinct.values() if stage.name == name] for name in order]


def run_serially(stages: Sequence[Stage], run_id: str) -> list[Manifest]:
    """Do stages in this process alone, with the same result."""
    manifests = []
    for stage in stages:
        with stage.artifact.locked(), StageProgress(stage.name) as progress:
            manifests.append(stage.run(run_id, progress.add, progress.expect))
    return manifests
