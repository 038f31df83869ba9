"""What a run will take, quoted before it is paid for: `vitalfew plan`.

The sources are surveyed (tasks/survey.py), and the stages themselves are run on a small sample in a store that is
thrown away: on a first handful of passages, which pays for loading models, on as many others, and on some hundred. A
shard's cost is taken to be a line through the latter two: so much for any shard and so much for every passage in it.
Each stage is measured in fresh processes, as many at once as there will be workers, since workers that share a machine
slow each other down.
"""

from dataclasses import dataclass

from storage.quotes import Quote
from tasks.survey import Survey

FIRST, LARGE = 64, 512
"""Passages in the first two samples each, and in the large one."""
SURVEY_SECONDS = 10.0
# Seconds that Prefect's server and Ray take to start and to end, beyond the stages' own work; measured on two cores of
# an AMD EPYC: no sample can tell them.
START_RAY = 14.0
# Copies of a shard's rows that a worker holds at once, as a multiple of the bytes it writes.
COPIES = 3.0


@dataclass(frozen=True)
class Line:
    """y = fixed + slope * n, neither below zero."""

    fixed: float
    slope: float

    @classmethod
    def through(cls, small: tuple[float, float], large: tuple[float, float]) -> "Line":
        (n, y), (m, z) = small, large
        slope = (z - y) / (m - n) if m > n else 0.0
        if slope <= 0 or z - slope * m < 0:  # noise: what is left is proportion
            return cls(0.0, z / m)
        return cls(z - slope * m, slope)

    def at(self, n: float) -> float:
        return self.fixed + self.slope * n


@dataclass(frozen=True)
class Sample:
    """What a stage came to on one sample: per shard, averaged over its shards; `passages` in such a shard."""

    passages: float
    rows: float
    tokens: float
    wall: float
    cpu: float
    gpu: float
    memory: float
    disk: float
    preparation: float


@dataclass(frozen=True)
class Plan:
    """A quote per stage, in order; stages that are there already are quoted as nothing."""

    survey: Survey
    stages: list[Quote]
    there: set[str]
    known: float
    staging_bytes: float
    start_seconds: float
    free_bytes: int

    @property
    def disk_bytes(self) -> float:
        """What has to fit: all that stays, and the largest that comes and goes."""
        return sum(quote.disk_bytes for quote in self.stages) + self.staging_bytes

    @property
    def wall_seconds(self) -> float:
        return self.start_seconds + sum(quote.wall_seconds for quote in self.stages)

    @property
    def fits(self) -> bool:
        return self.disk_bytes <= self.free_bytes


class DoesNotFit(OSError):
    """The disk has less room than the run will need."""
