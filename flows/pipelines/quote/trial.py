"""The trial of stages on small samples, in temporary stores, for a bounded time.

A run is tried in fresh processes, as many at once as it has workers, because processes on one machine slow one another
down. Like a worker, such a process imports only what its stages need.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, ShardRecord
from vitalfew.storage.costs import Cost
from vitalfew.tasks.stage import Stage

Announce = Callable[[str], None]
"""Called with what is tried now, in words."""
LEAST, SHARE = 2.0, 0.1
"""A trial may take so many seconds, and more up to this share of the work that it stands for."""


class Allowance:
    """The seconds that a trial may take, without the first sample, which loads the models."""

    def __init__(self, most: float, whole: float) -> None:
        """`most`: seconds, however much there is to do; `whole`: the units that the run works on."""
        self.most, self.whole, self.spent = most, whole, 0.0

    def left(self, rate: float) -> float:
        """Seconds that are left. `rate`: seconds that a unit takes."""
        return max(LEAST, min(self.most, SHARE * rate * self.whole)) - self.spent

    def units(self, rate: float) -> int:
        """The units that can be tried in the seconds that are left."""
        return max(0, int(self.left(rate) / max(rate, 1e-9)))


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

    @property
    def seconds(self) -> float:
        return self.preparation_wall + self.shards * self.wall

    @property
    def cpu_seconds(self) -> float:
        return self.preparation_cpu + self.shards * self.cpu

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


def take_over(done: Artifact, stage: Stage, shards: Sequence[int]) -> None:
    """Make the artifact of a stage on a sample from rows that a finished artifact has, instead of doing the work.
    `shards`: those of the finished artifact that have the sample."""
    stage.artifact.begin(stage.description())
    nothing = Cost(started=datetime.now(UTC).isoformat())
    over = stage.inputs[stage.counts or stage.over or next(iter(stage.inputs))]
    tables = dict.fromkeys(file.table for record in done.completed().shards for file in record.files)
    for shard in stage.shards():
        sample = over.read(shard)
        ids = pa.concat_arrays([sample[key].combine_chunks() for key in SAMPLED if key in sample.column_names])
        written = []
        for table in tables:
            rows = pa.concat_tables(_among(done.read(each, table), ids) for each in shards)
            written.append(stage.artifact.write(shard, table, rows.combine_chunks()))
        stage.artifact.mark_done(ShardRecord(shard, "plan", written, sample.num_rows, nothing))
    stage.finish()


SAMPLED, OWNING = ("question_id", "passage_id", "sentence_id"), ("question_id", "passage_id", "id")
"""The columns that name what is sampled, and the columns, the first of which there is, that say what a row is of."""


def _among(rows: pa.Table, ids: pa.Array) -> pa.Table:
    column = next((name for name in OWNING if name in rows.column_names), None)
    return rows.filter(pc.is_in(rows[column], ids)) if column else rows.slice(0, 0)


class Tries(Protocol):
    """The work of a process of a trial: it must be picklable, and so must its result."""

    def __call__(self, folder: Path, announce: Announce) -> Any:
        """`folder`: for all that it writes."""


def in_processes(copies: int, tries: Tries, folder: Path, announce: Announce) -> list[Any]:
    """Do the same tries in several processes at the same time, and return their results. Announces what the first one
    does. Raises the errors of the tries."""
    running = []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for number in range(copies):
        target = folder / str(number)
        files.write_bytes(target / GIVEN, pickle.dumps(tries))
        command = [sys.executable, "-c", "from vitalfew.flows.pipelines.quote.trial import main; main()", str(target)]
        running.append((target, subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)))
    for line in running[0][1].stdout or []:
        announce(line.strip())
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


def main() -> None:
    """A process of `in_processes`; its argument is the folder with its input."""
    folder = Path(sys.argv[1])
    tries: Tries = pickle.loads(files.read_bytes(folder / GIVEN))
    try:
        result = tries(folder, lambda text: print(text, flush=True))
    except Exception as error:  # the parent raises it
        result = error
    files.write_bytes(folder / MEASURED, pickle.dumps(result))
