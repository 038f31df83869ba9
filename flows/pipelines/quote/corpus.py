"""The quote of a run before its start: `vitalfew plan`.

The sources are surveyed (survey.py), and the stages themselves are tried on three small samples (trial.py): a handful
of passages, whose trial includes the loading of models, as many others, and some hundred. The cost of a shard is
modelled as a line through the latter two samples: a fixed part per shard and a part per passage.
"""

import heapq
import math
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import psutil
from rich.filesize import decimal

from vitalfew.configs.schema import IndexCorpus, LoadConfig
from vitalfew.flows.pipelines.quote.trial import StageSample, Trials, try_stages
from vitalfew.storage import files
from vitalfew.storage.costs import Quote, charge, find_quote, save_quotes
from vitalfew.storage.ids import ID_RANGE, passage_id
from vitalfew.tasks.datasets.base import Dataset, InputError, Passage, Question, Record, Reject
from vitalfew.tasks.datasets.files import bytes_read
from vitalfew.tasks.datasets.limits import CorpusSize, checked, shard_count, size_of
from vitalfew.tasks.encode import Encode
from vitalfew.tasks.encoders import reuse
from vitalfew.tasks.encoders.titles import salts
from vitalfew.tasks.load import Load
from vitalfew.tasks.split import Split
from vitalfew.tasks.stage import Stage

SKETCH = 1 << 16
"""Ids kept for counting: up to this number the count is exact, beyond it the standard error is 0.4 %."""

Value = TypeVar("Value")


@dataclass
class BottomK(Generic[Value]):
    """The k values with the smallest keys; the keys are distinct."""

    k: int
    values: dict[int, Value] = field(default_factory=dict)
    _largest: list[int] = field(default_factory=list)

    def add(self, key: int, value: Value) -> None:
        if key in self.values or (len(self.values) == self.k and key > -self._largest[0]):
            return
        heapq.heappush(self._largest, -key)
        self.values[key] = value
        if len(self.values) > self.k:
            del self.values[-heapq.heappop(self._largest)]

    def distinct(self) -> float:
        """Estimate of the number of distinct keys, drawn evenly from 0 to 2**63; exact if there are fewer than k."""
        if len(self.values) < self.k:
            return len(self.values)
        return (self.k - 1) * ID_RANGE / (-self._largest[0] + 1)


@dataclass(frozen=True)
class Survey:
    """`share` of the sources was read (1: all of them) in `seconds`; the counts are of the whole, extrapolated.

    `other_bytes`: the size of all records except passages, as a multiple of the passages' size."""

    share: float
    seconds: float
    records: float
    passages: float
    questions: float
    other_bytes: float
    sample: list[tuple[int, Passage]]

    @property
    def complete(self) -> bool:
        return self.share >= 1


def survey(datasets: Sequence[Dataset], config: LoadConfig, sample: int, seconds: float) -> Survey:
    """Read for at most `seconds` (but always the first `sample` records), and count. Raises InputError."""
    sketch: BottomK[None] = BottomK(SKETCH)
    chosen: BottomK[Passage] = BottomK(sample)
    questions: BottomK[None] = BottomK(SKETCH)
    sizes = {Passage: 1, Question: 0, Reject: 0}
    totals = [dataset.total_records() for dataset in datasets]
    size = sum(files.status(path).size for dataset in datasets for path in dataset.files())
    began, bytes_before, records, share = time.perf_counter(), bytes_read(), 0, 1.0
    for _, record in chain.from_iterable(dataset.records() for dataset in datasets):
        records += 1
        record = checked(record, config)
        sizes[type(record)] += _bytes(record)
        _note(record, sketch, chosen, questions)
        if records % 256 == 0 and records >= sample and time.perf_counter() - began > seconds:
            known = _share(records, totals, bytes_read() - bytes_before, size)
            if known is not None:
                share = known
                break
    return Survey(
        share=share,
        seconds=(time.perf_counter() - began) / share,
        records=records / share,
        passages=sketch.distinct() / share,
        questions=questions.distinct() / share,
        other_bytes=(sizes[Question] + sizes[Reject]) / max(1, sizes[Passage]),
        sample=sorted(chosen.values.items()),
    )


def _note(
    record: Record,
    sketch: BottomK[None],
    chosen: BottomK[Passage],
    questions: BottomK[None],
) -> None:
    if isinstance(record, Passage):
        key = passage_id(record.text)
        sketch.add(key, None)
        chosen.add(key, record)
    elif isinstance(record, Question):
        questions.add(passage_id(record.text), None)


def _bytes(record: Record) -> int:
    """The approximate size of a record's texts and numbers."""
    match record:
        case Passage():
            return len(record.text) + len(record.title) + 8
        case Question():
            return len(record.text) + sum(map(len, record.answers)) + 8 * len(record.gold_passages) + _facts(record)
        case Reject():
            return len(record.reason) + len(record.detail)


def _facts(question: Question) -> int:
    return 16 * len(question.supporting_facts)


def _share(records: int, totals: Sequence[int | None], read: int, size: int) -> float | None:
    """The share of the sources in `records`: by the total number if known, else by bytes; None if unknown."""
    if all(total is not None for total in totals):
        return min(1.0, records / max(1, sum(filter(None, totals))))
    return min(1.0, read / size) if read and size else None


FIRST, LARGE = 64, 512
"""Passages in either of the first two samples, and in the large one."""
SURVEY_SECONDS = 10.0
# Seconds that Prefect's server and Ray take to start and to end, beyond the stages' own work; measured on two cores of
# an AMD EPYC, because no sample can show them.
START_RAY = 14.0
# Seconds until a stage's workers on Ray are ready.
START_STAGE = 4.0
# Bytes of a staged row besides its text and title.
STAGED_ROW = 90
# A disk with AMPLE times the size of the sources, which may be compressed, is ample: indexes of dimension 384 took 40
# times the text. RECORD is the assumed size (bytes) of a record in a source that knows only its number of records.
AMPLE, RECORD = 500, 1000
# The memory (bytes) of a worker that Ray itself uses.
RAY_WORKER = 115 << 20


class Quotable(Protocol):
    """A plan over a corpus; a few passages can represent the corpus."""

    parameters: IndexCorpus

    @property
    def store(self) -> Path:
        """The store that it writes to."""

    @property
    def stages(self) -> list[Stage]:
        """The stages in a possible order of execution."""

    @property
    def load(self) -> Load:
        """The stage that reads the sources."""

    def missing(self) -> list[Stage]:
        """The stages that are not finished."""

    def over(self, passages: Sequence[Passage], folder: Path) -> "Quotable":
        """The same work over a few passages, with its own store in that new folder."""


@dataclass(frozen=True)
class Line:
    """y = fixed + slope * n, neither below zero."""

    fixed: float
    slope: float

    @classmethod
    def through(cls, small: tuple[float, float], large: tuple[float, float]) -> "Line":
        (n, y), (m, z) = small, large
        slope = (z - y) / (m - n) if m > n else 0.0
        if slope <= 0 or z - slope * m < 0:  # noise: assume proportionality instead
            return cls(0.0, z / m)
        return cls(z - slope * m, slope)

    def at(self, n: float) -> float:
        return self.fixed + self.slope * n


@dataclass(frozen=True)
class Quoted:
    """A quote per stage, in order; a finished stage costs nothing.

    `known`: the share of passages whose vectors the store holds; `start_seconds`: time outside the stages;
    `staging_bytes`: disk space that load needs temporarily; `free_bytes`: free space on the disk.
    """

    survey: Survey
    stages: list[Quote]
    there: set[str]
    known: float
    start_seconds: float
    staging_bytes: float
    free_bytes: int

    @property
    def disk_bytes(self) -> float:
        """The disk space that the run needs: permanent and temporary files."""
        return sum(quote.disk_bytes for quote in self.stages) + self.staging_bytes

    @property
    def wall_seconds(self) -> float:
        return self.start_seconds + sum(quote.wall_seconds for quote in self.stages)

    def check(self) -> None:
        """Raises DoesNotFit."""
        if self.disk_bytes > self.free_bytes:
            raise DoesNotFit(_no_room(self.disk_bytes, self.free_bytes))


class NothingToTry(InputError):
    """No passage of what was surveyed can be used; a run reads on."""


class DoesNotFit(ValueError):
    """The disk has less room than the run will need."""


def _no_room(due: float, free: int) -> str:
    return (
        f"the run needs about {decimal(int(due))}, but the disk has {decimal(free)} free: free some space, "
        "use --store on another disk, or store less (--set index.layout=fused, index.type=sq8, "
        "encode.units=[sentence])"
    )


def quote(plan: Quotable) -> Quoted:
    """Quote a run, and store the quotes in its store. Raises InputError as the run itself would."""
    parameters = plan.parameters
    missing = {stage.name for stage in plan.missing()}
    workers = (parameters.workers or psutil.cpu_count() or 1) if parameters.runner == "ray" else 1
    sources = [dataset for _, dataset in plan.load.datasets]
    surveyed = survey(sources, parameters.load, 2 * FIRST + LARGE, SURVEY_SECONDS)
    if not surveyed.sample:
        raise NothingToTry(f"{', '.join(parameters.datasets)}: the part that was read has no usable passage")
    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:
        samples = _tried(plan, Path(folder), surveyed, workers)
    known = _share_known(plan.stages, surveyed)
    quotes = [_quote(stage, samples[stage.name], surveyed, parameters, workers, known) for stage in plan.stages]
    quotes = [quote if quote.stage in missing else _nothing(quote) for quote in quotes]
    save_quotes(plan.store, [quote for quote in quotes if quote.stage in missing])
    text = sum(len(passage.text.encode()) + len(passage.title.encode()) for _, passage in surveyed.sample)
    staging = surveyed.records * (text / len(surveyed.sample) + STAGED_ROW)
    return Quoted(
        survey=surveyed,
        stages=quotes,
        there={quote.stage for quote in quotes} - missing,
        known=known,
        start_seconds=START_RAY + START_STAGE * len(missing) if parameters.runner == "ray" else 0.0,
        staging_bytes=staging if plan.load.name in missing else 0.0,
        free_bytes=files.free_bytes(plan.store),
    )


def check_room(plan: Quotable) -> None:
    """Raise DoesNotFit if the disk has no room for the artifacts of a run.

    A disk that is ample for the sources passes at once. Otherwise stored quotes decide; if some are missing, the run is
    quoted now.
    """
    free = files.free_bytes(plan.store)
    sources = sum(files.status(path).size for path in plan.load.files)
    records = sum(dataset.total_records() or 0 for _, dataset in plan.load.datasets)
    if free > AMPLE * (sources + records * RECORD):
        return
    missing = plan.missing()
    quotes = [find_quote(plan.store, stage.artifact.fingerprint) for stage in missing]
    if all(quotes):
        due = sum(quote.disk_bytes for quote in quotes if quote)
        done = sum(file.bytes for stage in missing for record in stage.artifact.records() for file in record.files)
        if due - done > free:
            raise DoesNotFit(_no_room(due - done, free))
    else:
        with suppress(NothingToTry):
            quote(plan).check()


def _tried(plan: Quotable, folder: Path, surveyed: Survey, workers: int) -> Trials:
    """By stage, the measurements on the three samples, with as many processes at once as the run will have."""
    sizes = _sizes(len(surveyed.sample))
    # Three samples of one passage each are tried even where there are not three.
    passages = list(islice(cycle(passage for _, passage in surveyed.sample), sum(sizes)))
    ends = np.cumsum(sizes)
    copies = []
    for copy in range(min(workers, psutil.cpu_count() or 1)):
        target = folder / str(copy)
        samples = [
            plan.over(passages[end - size : end], target / str(number)).stages
            for number, (size, end) in enumerate(zip(sizes, ends, strict=True))
        ]
        copies.append(list(zip(*samples, strict=True)))
    return try_stages(copies, sizes, folder / "processes", together=plan.parameters.runner == "serial")


def _sizes(passages: int) -> tuple[int, int, int]:
    """Passages in the three samples: a small corpus is sampled in proportion."""
    first = max(1, min(FIRST, passages // 10))
    return first, first, max(1, min(LARGE, passages - 2 * first))


def _share_known(stages: Sequence[Stage], surveyed: Survey) -> float:
    encode = next(stage for stage in stages if isinstance(stage, Encode))
    bases = reuse.candidates(encode.artifact, encode.description())
    ids, passages = zip(*surveyed.sample, strict=True)
    known_by = salts([passage.title if encode.titles else "" for passage in passages])
    return reuse.share_known(bases, np.array(ids, np.int64), known_by)


def _quote(
    stage: Stage,
    samples: tuple[StageSample, ...],
    surveyed: Survey,
    parameters: IndexCorpus,
    workers: int,
    known: float,
) -> Quote:
    small, large = samples[1:]
    new = 1.0 - known if stage.name == "encode" else 1.0
    per_passage = surveyed.passages / sum(sample.passages for sample in samples)
    rows = per_passage * sum(sample.rows * sample.shards for sample in samples)
    tokens = new * per_passage * sum(sample.tokens * sample.shards for sample in samples)
    shards = shard_count(_size(surveyed), parameters.load)
    if stage.name == "index":
        shards = max(1, math.ceil(rows * large.disk / large.rows / (parameters.index.shard_mb << 20)))
    amount = (tokens if large.tokens else rows) / shards
    wall = _preparation(stage, "preparation_wall", small, large, surveyed, parameters)
    wall += _seconds("wall", samples, amount, starts=1, shards=math.ceil(shards / workers))
    cpu = _preparation(stage, "preparation_cpu", small, large, surveyed, parameters)
    cpu += _seconds("cpu", samples, amount, starts=min(workers, shards), shards=shards)
    gpu = wall * min(workers, shards) if large.gpu else 0.0
    bytes_per_row = Line.through((small.rows, small.disk), (large.rows, large.disk))
    larger = max(0.0, rows / shards - large.rows)
    memory = large.memory + larger * bytes_per_row.slope + (RAY_WORKER if parameters.runner == "ray" else 0)
    disk = shards * bytes_per_row.at(rows / shards) * (1 + surveyed.other_bytes if stage.name == "load" else 1)
    return Quote(
        fingerprint=stage.artifact.fingerprint,
        stage=stage.name,
        runner=parameters.runner,
        workers=workers,
        rows=round(rows),
        tokens=round(tokens),
        wall_seconds=wall,
        cpu_seconds=cpu,
        gpu_seconds=gpu,
        peak_memory_bytes=round(memory),
        disk_bytes=round(disk),
        usd=charge(cpu, gpu, tokens, stage.model_name),
    )


def _size(surveyed: Survey) -> CorpusSize:
    """Estimate the size of the whole corpus from the sample."""
    sizes = zip(*(size_of(passage) for _, passage in surveyed.sample), strict=True)
    _, size, sentences = (sum(column) * surveyed.passages / len(surveyed.sample) for column in sizes)
    return CorpusSize(surveyed.passages, size * (1 + surveyed.other_bytes), sentences)


def _seconds(measure: str, samples: tuple[StageSample, ...], amount: float, starts: int, shards: int) -> float:
    """Seconds for `shards` shards of `amount` tokens or rows, if the model is loaded `starts` times. `measure`: wall or
    cpu, of a shard. The cost of models grows with tokens, all other costs with rows."""
    first, small, large = samples
    over = "tokens" if large.tokens else "rows"
    line = Line.through(*((getattr(sample, over), getattr(sample, measure)) for sample in (small, large)))
    return starts * max(0.0, first.wall - small.wall) + shards * line.at(amount)


def _preparation(
    stage: Stage, seconds: str, small: StageSample, large: StageSample, surveyed: Survey, parameters: IndexCorpus
) -> float:
    """Seconds before the first shard: proportional to the passages read, of which the splitter has a limit."""
    due = surveyed.passages
    if isinstance(stage, Split):
        chars = sum(len(passage.text) for _, passage in surveyed.sample) / len(surveyed.sample)
        due = min(due, stage.config.sample_chars / chars)
    reading = surveyed.seconds if stage.name == "load" else 0.0
    return reading + Line.through(*((sample.passages, getattr(sample, seconds)) for sample in (small, large))).at(due)


def _nothing(quote: Quote) -> Quote:
    return replace(
        quote, tokens=0, wall_seconds=0.0, cpu_seconds=0.0, gpu_seconds=0.0, peak_memory_bytes=0, disk_bytes=0, usd=0.0
    )
