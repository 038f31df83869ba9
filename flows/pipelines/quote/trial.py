"""A trial run of the stages on small samples, in processes like those of the run.

The stages run on a handful of passages, whose trial includes the loading of models, on as many others, and on some
hundred, in temporary stores. Under Ray a worker executes one stage, so here every stage gets fresh processes too, as
many at once as the run has workers, because processes on one machine slow one another down. A serial run executes all
stages in one process. Like a worker, such a process imports only what its stages need.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vitalfew.storage import files
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.costs import Cost
from vitalfew.tasks.stage import Stage

Plans = Sequence[Sequence[Stage]]
"""For every stage, in order, that stage on all samples."""


GIVEN, MEASURED = "given.pickle", "measured.pickle"


@dataclass(frozen=True)
class StageSample:
    """The measurements of a stage on one sample: means over its `shards`; `preparation_*` occur once.

    `passages`: the number in the sample; times in seconds, sizes in bytes.
    """

    passages: float
    shards: float
    rows: float
    tokens: float
    wall: float
    cpu: float
    gpu: float
    memory: float
    disk: float
    preparation_wall: float
    preparation_cpu: float

    @classmethod
    def of(cls, stage: Stage, manifest: Manifest, passages: int) -> "StageSample":
        costs = [record.cost for record in manifest.shards]
        once = manifest.preparation.cost if manifest.preparation else Cost()
        directories = {file.table for file in manifest.files()} | {"costs", stage.table}
        size = sum(files.tree_bytes(stage.store / table / stage.artifact.fingerprint) for table in directories)
        count = len(costs)
        return cls(
            passages=passages,
            shards=count,
            rows=manifest.rows[stage.table] / count,
            tokens=sum(cost.tokens for cost in costs) / count,
            wall=sum(cost.wall_seconds for cost in costs) / count,
            cpu=sum(cost.cpu_seconds for cost in costs) / count,
            gpu=sum(cost.gpu_seconds for cost in costs) / count,
            memory=max(cost.peak_memory_bytes for cost in [once, *costs]),
            disk=size / count,
            preparation_wall=once.wall_seconds,
            preparation_cpu=once.cpu_seconds,
        )

    @classmethod
    def mean(cls, samples: Sequence["StageSample"]) -> "StageSample":
        return cls(
            **{name: sum(getattr(sample, name) for sample in samples) / len(samples) for name in vars(samples[0])}
        )


Trials = dict[str, tuple[StageSample, ...]]
"""By stage, the measurements on all samples."""


def try_stages(copies: Sequence[Plans], passages: Sequence[int], folder: Path, together: bool) -> Trials:
    """Execute the stages on samples of that many passages, with one process per copy at the same time; `together`: all
    stages of a copy in one process. The results are means over the copies. Raises the errors of the stages."""
    stages = range(len(copies[0]))
    names = [samples[0].name for samples in copies[0]]
    groups = [list(stages)] if together else [[position] for position in stages]
    results: Trials = {}
    for number, group in enumerate(groups):
        results_of_copies = _in_processes(
            [[plans[position] for position in group] for plans in copies], passages, folder / f"{number}"
        )
        for place, position in enumerate(group):
            measured = [copy[place] for copy in results_of_copies]
            results[names[position]] = tuple(StageSample.mean(sample) for sample in zip(*measured, strict=True))
    return results


def _in_processes(copies: Sequence[Plans], passages: Sequence[int], folder: Path) -> list[list[list[StageSample]]]:
    """The measurements by copy, stage and sample."""
    running = []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for number, plans in enumerate(copies):
        target = folder / str(number)
        files.write_bytes(target / GIVEN, pickle.dumps((plans, passages)))
        command = [sys.executable, "-c", "from vitalfew.flows.pipelines.quote.trial import main; main()", str(target)]
        running.append((target, subprocess.Popen(command, env=environment)))
    codes = [process.wait() for _, process in running]
    results = []
    for (target, _), code in zip(running, codes, strict=True):
        if code:
            raise RuntimeError(f"a trial run on a small sample failed with exit status {code}")
        result = pickle.loads(files.read_bytes(target / MEASURED))
        if isinstance(result, Exception):
            raise result
        results.append(result)
    return results


def _measure(plans: Plans, passages: Sequence[int]) -> list[list[StageSample]]:
    """The measurements by stage and sample. The stages before these must be finished."""
    return [
        [StageSample.of(stage, stage.run("plan"), size) for stage, size in zip(samples, passages, strict=True)]
        for samples in plans
    ]


def main() -> None:
    """A process of `try_stages`; its argument is the folder with its input."""
    folder = Path(sys.argv[1])
    plans, passages = pickle.loads(files.read_bytes(folder / GIVEN))
    try:
        result: object = _measure(plans, passages)
    except Exception as error:  # the parent raises it
        result = error
    files.write_bytes(folder / MEASURED, pickle.dumps(result))
