"""The cost of a stage before its start, forecast from samples that it was tried on.

The cost of a shard is a line in its work: a fixed part, and a part per token, or per unit (a passage or a question) if
the stage computes no tokens. What the first sample takes beyond that line is the loading of models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import psutil

from vitalfew.configs.schema import Execution
from vitalfew.flows.pipelines.quote.trial import StageSample
from vitalfew.storage.costs import Quote, charge
from vitalfew.tasks.stage import Stage

# Seconds that Prefect's server and Ray take to start and to end, beyond the stages' own work; measured on two cores of
# an AMD EPYC, because no sample can show them.
START_RAY = 14.0
# Seconds until a stage's workers on Ray are ready.
START_STAGE = 4.0
# The memory (bytes) of a worker that Ray itself uses.
RAY_WORKER = 115 << 20


@dataclass(frozen=True)
class Line:
    """y = fixed + slope * n, neither below zero."""

    fixed: float
    slope: float

    @classmethod
    def through(cls, *points: tuple[float, float]) -> "Line":
        """The line through the first and last point (n, y), or through the origin and the last one."""
        (n, y), (m, z) = points[0], points[-1]
        slope = (z - y) / (m - n) if m > n else 0.0
        if slope <= 0 or z - slope * m < 0:  # one point, or noise: assume proportionality instead
            return cls(0.0, z / m)
        return cls(z - slope * m, slope)

    def at(self, n: float) -> float:
        return self.fixed + self.slope * n


@dataclass(frozen=True)
class Speed:
    """Seconds that a model takes per token."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Work:
    """The work that a run leaves to a stage; `rows` and `tokens` default to those of as many units in the samples.

    `units`: passages or questions; `prepared`: the units that the preparation reads, by default all; `reading`: seconds
    to read the sources; `other_bytes`: the size of other records, as a multiple of the size of the units.
    """

    units: float
    shards: int
    rows: float | None = None
    tokens: float | None = None
    prepared: float | None = None
    reading: float = 0.0
    other_bytes: float = 0.0


class Forecast:
    """The cost of a stage in any amount of work. `cold`: the sample that loaded the models, None if there is none;
    `warm`: the other samples, from small to large."""

    def __init__(
        self, stage: Stage, parameters: Execution, cold: StageSample | None, warm: Sequence[StageSample]
    ) -> None:
        self.stage, self.parameters, self.cold, self.warm = stage, parameters, cold, warm
        self.samples = [*([cold] if cold else []), *warm]
        self.by_tokens = bool(warm[-1].tokens)

    def per_unit(self, measure: str) -> float:
        """The mean of a measure of shards, such as rows, per unit."""
        units = sum(each.units for each in self.samples)
        return sum(getattr(each, measure) * each.shards for each in self.samples) / units

    def quote(self, work: Work, speed: Speed | None = None) -> Quote:
        """Quote an amount of work. `speed`: of the model, if it is known from earlier runs."""
        rows = work.units * self.per_unit("rows") if work.rows is None else work.rows
        tokens = work.units * self.per_unit("tokens") if work.tokens is None else work.tokens
        amount = (tokens if speed or self.by_tokens else work.units) / work.shards
        workers, on_ray = worker_count(self.parameters), self.parameters.runner != "serial"
        side = min(workers, work.shards, self.stage.workers or work.shards)
        preparation, loading, line = self._seconds("wall", work, speed.wall if speed else None)
        wall = preparation + loading + ceil(work.shards / side) * line.at(amount)
        gpu = self.stage.num_gpus * (side * loading + work.shards * line.at(amount))
        preparation, loading, line = self._seconds("cpu", work, speed.cpu if speed else None)
        cpu = preparation + side * loading + work.shards * line.at(amount)
        large = self.warm[-1]
        disk = Line.through(*((each.units / each.shards, each.disk) for each in self.samples))
        larger = max(0.0, work.units / work.shards - large.units / large.shards)
        return Quote(
            fingerprint=self.stage.artifact.fingerprint,
            stage=self.stage.name,
            runner="ray" if on_ray else "serial",
            workers=workers,
            rows=round(rows),
            tokens=round(tokens),
            wall_seconds=wall,
            cpu_seconds=cpu,
            gpu_seconds=gpu,
            peak_memory_bytes=round(self._memory() + larger * disk.slope + (RAY_WORKER if on_ray else 0)),
            disk_bytes=round(work.shards * disk.at(work.units / work.shards) * (1 + work.other_bytes)),
            usd=charge(cpu, gpu, tokens, self.stage.model_name),
        )

    def _memory(self) -> float:
        """Peak memory (bytes) in the last sample, without the models that later stages left there after the first."""
        large = self.warm[-1].memory
        return self.cold.memory + max(0.0, large - self.warm[0].memory) if self.cold else large

    def _seconds(self, measure: str, work: Work, per_token: float | None) -> tuple[float, float, Line]:
        """Seconds before the first shard, seconds to load the models in one worker, and the line of a shard."""

        def amount(sample: StageSample) -> float:
            return sample.tokens if self.by_tokens else sample.units / sample.shards

        before = f"preparation_{measure}"
        preparation = Line.through(*((each.units, getattr(each, before)) for each in self.warm))
        # Of a stage without a network, a single warm sample and the first one tell the fixed part.
        points = self.warm if self.by_tokens or len(self.warm) > 1 else self.samples
        line = Line.through(*((amount(each), getattr(each, measure)) for each in points))
        loading = 0.0
        if cold := self.cold:
            expected = preparation.at(cold.units) + line.at(amount(cold))
            loading = max(0.0, getattr(cold, before) + getattr(cold, measure) - expected)
        seconds = work.reading + preparation.at(work.units if work.prepared is None else work.prepared)
        return seconds, loading, line if per_token is None else Line(0.0, per_token)


def worker_count(parameters: Execution) -> int:
    """The number of parallel workers that a run has."""
    return (parameters.workers or psutil.cpu_count() or 1) if parameters.runner != "serial" else 1


def start_seconds(parameters: Execution, stages: int) -> float:
    """Seconds outside the stages, if so many of them are missing."""
    return START_RAY + START_STAGE * stages if parameters.runner != "serial" and stages else 0.0
