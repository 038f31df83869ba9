"""The quote of an index before the run: `vitalfew plan DATASET`.

The sources are surveyed, and the stages are tried on three small samples (trial.py): a handful of passages, whose trial
includes the loading of models, as many others, and some hundred. From these the cost of the whole is forecast
(forecast.py).
"""

import heapq
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, cycle, islice
from math import ceil
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import psutil
from rich.filesize import decimal

from vitalfew.configs.schema import IndexCorpus, LoadConfig
from vitalfew.flows.pipelines.quote.forecast import Forecast, Work, start_seconds, worker_count
from vitalfew.flows.pipelines.quote.trial import StageSample, try_at_once
from vitalfew.storage import files
from vitalfew.storage.costs import Quote, find_quote, save_quotes
from vitalfew.storage.ids import ID_RANGE, passage_id
from vitalfew.tasks.datasets.base import Dataset, InputError, Passage, Question, Reject
from vitalfew.tasks.datasets.files import bytes_read
from vitalfew.tasks.datasets.limits import CorpusSize, checked, shard_count, size_of
from vitalfew.tasks.encode import Encode
from vitalfew.tasks.encoders import reuse
from vitalfew.tasks.encoders.titles import salts
from vitalfew.tasks.index import Index
from vitalfew.tasks.load import Load
from vitalfew.tasks.split import Split
from vitalfew.tasks.stage import Stage

SKETCH = 1 << 16
"""Ids kept for counting: smaller counts are exact, larger ones have a standard error of 0.4 %."""

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
    """The result of reading a `share` of the sources (1: all) in `seconds`; the counts are extrapolated to the whole.

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
    sizes: dict[type, float] = {Passage: 1, Question: 0, Reject: 0}
    totals = [dataset.total_records() for dataset in datasets]
    size = sum(files.status(path).size for dataset in datasets for path in dataset.files())
    began, bytes_before, records, share = time.perf_counter(), bytes_read(), 0, 1.0
    for _, record in chain.from_iterable(dataset.records() for dataset in datasets):
        records += 1
        record = checked(record, config)
        sizes[type(record)] += size_of(record).bytes
        if isinstance(record, Passage):
            key = passage_id(record.text)
            sketch.add(key, None)
            chosen.add(key, record)
        elif isinstance(record, Question):
            questions.add(passage_id(record.text), None)
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
        other_bytes=(sizes[Question] + sizes[Reject]) / sizes[Passage],
        sample=sorted(chosen.values.items()),
    )


def _share(records: int, totals: Sequence[int | None], read: int, size: int) -> float | None:
    """The share of the sources in `records`: by the total number if known, else by bytes; None if unknown."""
    if all(total is not None for total in totals):
        return min(1.0, records / max(1, sum(filter(None, totals))))
    return min(1.0, read / size) if read and size else None


FIRST, LARGE = 64, 512
"""Passages in either of the first two samples, and in the large one."""
SURVEY_SECONDS = 10.0
# Bytes of a staged row besides its text and title.
STAGED_ROW = 90
# A disk with AMPLE times the size of the sources, which may be compressed, is ample: indexes of dimension 384 took 40
# times the text. RECORD is the assumed size (bytes) of a record in a source that knows only its number of records.
AMPLE, RECORD = 500, 1000


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
        """The same work over a few passages, with a store in a new folder."""


@dataclass(frozen=True)
class Quoted:
    """A quote per stage that is not finished, in order. `names`: of all stages.

    `known`: the share of passages whose vectors the store holds; `start_seconds`: time outside the stages;
    `staging_bytes`: disk space that load needs temporarily; `free_bytes`: free space on the disk.
    """

    survey: Survey
    stages: list[Quote]
    names: list[str]
    workers: int
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
        _check_room(self.disk_bytes, self.free_bytes)


class NothingToTry(InputError):
    """None of the surveyed passages can be used; a run would read further."""


class DoesNotFit(ValueError):
    """The disk has less room than the run will need."""


def _check_room(due: float, free: int) -> None:
    if due > free:
        raise DoesNotFit(
            f"the run needs about {decimal(int(due))}, but the disk has {decimal(free)} free: free some space, "
            "use --store on another disk, or store less (--set index.layout=fused, index.type=sq8, "
            "encode.units=[sentence])"
        )


def quote(plan: Quotable) -> Quoted:
    """Quote a run, and store the quotes in its store. Raises InputError as the run itself would."""
    parameters = plan.parameters
    missing = {stage.name for stage in plan.missing()}
    sources = [dataset for _, dataset in plan.load.datasets]
    surveyed = survey(sources, parameters.load, 2 * FIRST + LARGE, SURVEY_SECONDS)
    if not surveyed.sample:
        raise NothingToTry(f"{', '.join(parameters.datasets)}: the part that was read has no usable passage")
    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:
        forecasts = _forecasts(plan, Path(folder), surveyed)
    known = _share_known(plan.stages, surveyed)
    quotes = [
        forecast.quote(_work(forecast, surveyed, parameters, known))
        for forecast in forecasts
        if forecast.stage.name in missing
    ]
    save_quotes(plan.store, quotes)
    text = sum(len(passage.text.encode()) + len(passage.title.encode()) for _, passage in surveyed.sample)
    staging = surveyed.records * (text / len(surveyed.sample) + STAGED_ROW)
    return Quoted(
        survey=surveyed,
        stages=quotes,
        names=[stage.name for stage in plan.stages],
        workers=worker_count(parameters),
        known=known,
        start_seconds=start_seconds(parameters, len(missing)),
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
        _check_room(due - done, free)
    else:
        with suppress(NothingToTry):
            quote(plan).check()


def _forecasts(plan: Quotable, folder: Path, surveyed: Survey) -> list[Forecast]:
    """Try the stages on three samples, with as many processes at once as the run will have. A serial run executes all
    stages in one process."""
    sizes = _sizes(len(surveyed.sample))
    # Three samples of one passage each are tried even where there are not three.
    passages = list(islice(cycle(passage for _, passage in surveyed.sample), sum(sizes)))
    ends = np.cumsum(sizes)
    copies: list[list[tuple[Stage, int]]] = []
    for copy in range(min(worker_count(plan.parameters), psutil.cpu_count() or 1)):
        samples = [
            plan.over(passages[end - size : end], folder / f"{copy}" / f"{number}").stages
            for number, (size, end) in enumerate(zip(sizes, ends, strict=True))
        ]
        copies.append([tried for stages in zip(*samples, strict=True) for tried in zip(stages, sizes, strict=True)])
    of_process = len(sizes) if plan.parameters.runner != "serial" else len(copies[0])
    measured: list[StageSample] = []
    for first in range(0, len(copies[0]), of_process):
        tries = [copy[first : first + of_process] for copy in copies]
        measured += try_at_once(tries, folder / f"processes-{first}")
    cold, small, large = (measured[place :: len(sizes)] for place in range(len(sizes)))
    by_stage = zip(plan.stages, cold, small, large, strict=True)
    return [Forecast(stage, plan.parameters, first, others) for stage, first, *others in by_stage]


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


def _work(forecast: Forecast, surveyed: Survey, parameters: IndexCorpus, known: float) -> Work:
    """The work of a stage over the whole corpus."""
    stage, passages = forecast.stage, surveyed.passages
    work = Work(passages, shard_count(_size(surveyed), parameters.load))
    if isinstance(stage, Load):
        return replace(work, reading=surveyed.seconds, other_bytes=surveyed.other_bytes)
    if isinstance(stage, Split):
        characters = sum(len(passage.text) for _, passage in surveyed.sample) / len(surveyed.sample)
        return replace(work, prepared=min(passages, stage.config.sample_chars / characters))
    if isinstance(stage, Encode):
        return replace(work, tokens=(1 - known) * passages * forecast.per_unit("tokens"))
    if isinstance(stage, Index):
        large = forecast.warm[-1]
        size = passages * large.disk * large.shards / large.units
        return replace(work, shards=max(1, ceil(size / (parameters.index.shard_mb << 20))))
    return work


def _size(surveyed: Survey) -> CorpusSize:
    """Estimate the size of the whole corpus from the sample."""
    sizes = zip(*(size_of(passage) for _, passage in surveyed.sample), strict=True)
    _, size, sentences = (sum(column) * surveyed.passages / len(surveyed.sample) for column in sizes)
    return CorpusSize(surveyed.passages, size * (1 + surveyed.other_bytes), sentences)
