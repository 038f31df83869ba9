"""The trial of stages on small samples, in temporary stores.

Under Ray a worker executes one stage, so `try_at_once` gives every stage fresh processes too, as many at once as the
run has workers, because processes on one machine slow one another down. Like a worker, such a process imports only what
its stages need.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vitalfew.storage import files
from vitalfew.storage.costs import Cost
from vitalfew.tasks.stage import Stage

GIVEN, MEASURED = "given.pickle", "measured.pickle"


@dataclass(frozen=True)
class StageSample:
    """The measurements of a stage on one sample: means over its `shards`; `preparation_*` occur once.

    `units`: the passages or questions in the sample; times in seconds, sizes in bytes.
    """

    units: float
    shards: float
    rows: float
    tokens: float
    wall: float
    cpu: float
    memory: float
    disk: float
    preparation_wall: float
    preparation_cpu: float

    @classmethod
    def mean(cls, samples: Sequence["StageSample"]) -> "StageSample":
        return cls(
            **{name: sum(getattr(sample, name) for sample in samples) / len(samples) for name in vars(samples[0])}
        )


def try_stage(stage: Stage, units: int) -> StageSample:
    """Execute a stage on a sample; the stages before it must be finished. Raises the errors of the stage."""
    manifest = stage.run("plan")
    costs = [record.cost for record in manifest.shards]
    once = manifest.preparation.cost if manifest.preparation else Cost()
    count = len(costs)
    return StageSample(
        units=units,
        shards=count,
        rows=manifest.rows[stage.table] / count,
        tokens=sum(cost.tokens for cost in [once, *costs]) / count,
        wall=sum(cost.wall_seconds for cost in costs) / count,
        cpu=sum(cost.cpu_seconds for cost in costs) / count,
        memory=max(cost.peak_memory_bytes for cost in [once, *costs]),
        disk=sum(file.bytes for file in manifest.files()) / count,
        preparation_wall=once.wall_seconds,
        preparation_cpu=once.cpu_seconds,
    )


Tries = Sequence[tuple[Stage, int]]
"""Stages on samples, with the number of units in the sample, in the order of execution."""


def try_at_once(copies: Sequence[Tries], folder: Path) -> list[StageSample]:
    """Execute copies of the same tries at the same time, with one process per copy. The results are means over the
    copies. Raises the errors of the stages."""
    running = []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for number, tries in enumerate(copies):
        target = folder / str(number)
        files.write_bytes(target / GIVEN, pickle.dumps(tries))
        command = [sys.executable, "-c", "from vitalfew.flows.pipelines.quote.trial import main; main()", str(target)]
        running.append((target, subprocess.Popen(command, env=environment)))
    codes = [process.wait() for _, process in running]
    results: list[list[StageSample]] = []
    for (target, _), code in zip(running, codes, strict=True):
        if code:
            raise RuntimeError(f"a trial run on a small sample failed with exit status {code}")
        result = pickle.loads(files.read_bytes(target / MEASURED))
        if isinstance(result, Exception):
            raise result
        results.append(result)
    return [StageSample.mean(measured) for measured in zip(*results, strict=True)]


def main() -> None:
    """A process of `try_at_once`; its argument is the folder with its input."""
    folder = Path(sys.argv[1])
    tries: Tries = pickle.loads(files.read_bytes(folder / GIVEN))
    try:
        result: object = [try_stage(stage, units) for stage, units in tries]
    except Exception as error:  # the parent raises it
        result = error
    files.write_bytes(folder / MEASURED, pickle.dumps(result))
