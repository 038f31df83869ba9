"""A trial run of the stages on small samples, in processes like those that will do the work.

The stages are run on a first handful of passages, which pays for loading models, on as many others, and on some
hundred, in stores that are thrown away. Under Ray a worker does one stage: here too each stage has fresh processes, as
many at once as there will be workers, since those that share a machine slow each other down. A serial run does all in
one process. Like a worker, such a process imports what its stages need and no more.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storage import files
from storage.artifacts import Manifest
from storage.costs import Cost
from tasks.stage import Stage

Plans = Sequence[Sequence[Stage]]
"""For every stage, in order, that stage on each of the samples."""


GIVEN, MEASURED = "given.pickle", "measured.pickle"


@dataclass(frozen=True)
class Sample:
    """What a stage came to on one sample: means over its `shards`; `preparation` is paid once.

    `passages` is the number in the sample; seconds and bytes otherwise.
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
    def of(cls, stage: Stage, manifest: Manifest, passages: int) -> "Sample":
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
    def mean(cls, samples: Sequence["Sample"]) -> "Sample":
        return cls(**{name: sum(getattr(each, name) for each in samples) / len(samples) for name in vars(samples[0])})


Trials = dict[str, tuple[Sample, ...]]
"""By stage, what it came to on each of the samples."""


def try_stages(copies: Sequence[Plans], passages: Sequence[int], folder: Path, together: bool) -> Trials:
    """Do the stages on samples of that many passages, in one process for each copy at the same time; `together`: a
    copy's stages all in one process. Means over the copies. Raises what a stage raises."""
    stages = range(len(copies[0]))
    names = [samples[0].name for samples in copies[0]]
    groups = [list(stages)] if together else [[position] for position in stages]
    results: Trials = {}
    for number, group in enumerate(groups):
        each = _in_processes(
            [[plans[position] for position in group] for plans in copies], passages, folder / f"{number}"
        )
        for place, position in enumerate(group):
            measured = [copy[place] for copy in each]
            results[names[position]] = tuple(Sample.mean(sample) for sample in zip(*measured, strict=True))
    return results


def _in_processes(copies: Sequence[Plans], passages: Sequence[int], folder: Path) -> list[list[list[Sample]]]:
    """By copy, stage and sample."""
    running = []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for number, plans in enumerate(copies):
        target = folder / str(number)
        files.write_bytes(target / GIVEN, pickle.dumps((plans, passages)))
        command = [sys.executable, "-c", "from flows.pipelines.quote.trial import main; main()", str(target)]
        running.append((target, subprocess.Popen(command, env=environment)))
    codes = [process.wait() for _, process in running]
    results = []
    for (target, _), code in zip(running, codes, strict=True):
        if code:
            raise RuntimeError(f"a trial run on a small sample ended with exit status {code}")
        result = pickle.loads(files.read_bytes(target / MEASURED))
        if isinstance(result, Exception):
            raise result
        results.append(result)
    return results


def _measure(plans: Plans, passages: Sequence[int]) -> list[list[Sample]]:
    """By stage and sample. The stages before these have been done."""
    return [
        [Sample.of(stage, stage.run("plan"), size) for stage, size in zip(samples, passages, strict=True)]
        for samples in plans
    ]


def main() -> None:
    """A process of `try_stages`; its argument is a folder with what it is given."""
    folder = Path(sys.argv[1])
    plans, passages = pickle.loads(files.read_bytes(folder / GIVEN))
    try:
        result: object = _measure(plans, passages)
    except Exception as error:  # the parent raises it
        result = error
    files.write_bytes(folder / MEASURED, pickle.dumps(result))
