"""The quote of an index before the run: `vitalfew plan DATASET`.

The sources are surveyed, unless the store has their passages, and the stages that are missing are tried on samples: a
few passages, whose trial includes the loading of models, and then more and more, as long as a trial may take
(passages.py). From these the cost of the whole is forecast (forecast.py). What is there is neither read nor tried.
"""

import heapq
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import psutil
from rich.filesize import decimal

from vitalfew.configs.schema import IndexCorpus, LoadConfig
from vitalfew.flows.pipelines.paying import of_requests
from vitalfew.flows.pipelines.quote.forecast import Forecast, Work, start_seconds, worker_count
from vitalfew.flows.pipelines.quote.passages import TryPassages, typical
from vitalfew.flows.pipelines.quote.trial import Announce, StageSample, in_processes
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, Manifest
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

    `other_bytes`: the size of all records except passages, as a multiple of the passages' size; `stored`: the store
    has the passages, and the sources were not read."""

    share: float
    seconds: float
    records: float
    passages: float
    questions: float
    other_bytes: float
    sample: list[tuple[int, Passage]]
    shards: int | None = None

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


CANDIDATES = 1024
"""Passages that samples are taken from."""
SURVEY_SECONDS = 6.0
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

    def manifest(self, stage: Stage) -> Manifest | None:
        """The manifest of a finished stage."""

    def missing(self) -> list[Stage]:
        """The stages that are not finished."""

    def over(self, passages: Sequence[Passage], folder: Path) -> "Quotable":
        """The same work over a few passages, with a store in a new folder."""


@dataclass(frozen=True)
class Quoted:
    """A quote per stage that is not finished, in order. `names`: of all stages.

    `known`: the share of passages whose vectors the store holds; `start_seconds`: time outside the stages;
    `staging_bytes`: disk space that load needs temporarily; `free_bytes`: free space on the disk; `requests_usd`: the
    part of the USD that is for requests to servers.
    """

    survey: Survey
    stages: list[Quote]
    names: list[str]
    workers: int
    known: float
    start_seconds: float
    staging_bytes: float
    free_bytes: int
    requests_usd: float = 0.0

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


def quote(plan: Quotable, announce: Announce = lambda text: None) -> Quoted:
    """Quote a run, and store the quotes of whole artifacts in its store. `announce`: called with what is done now.
    Raises InputError as the run itself would."""
    parameters = plan.parameters
    missing = plan.missing()
    announce("reading the sources")
    surveyed = _surveyed(plan, CANDIDATES if missing else 0)
    forecasts: list[Forecast] = []
    known = 0.0
    if missing:
        with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:
            forecasts = _forecasts(plan, Path(folder), surveyed, announce)
    if any(isinstance(stage, Encode) for stage in missing):
        known = _share_known(plan.stages, surveyed)
    works = [_work(forecast, surveyed, parameters, known) for forecast in forecasts]
    pairs = [*zip(forecasts, works, strict=True)]
    save_quotes(plan.store, [forecast.quote(work) for forecast, work in pairs])
    stages = [forecast.quote(_left(forecast.stage, work)) for forecast, work in pairs]
    return Quoted(
        survey=surveyed,
        stages=stages,
        names=[stage.name for stage in plan.stages],
        workers=worker_count(parameters),
        known=known,
        start_seconds=start_seconds(parameters, len(missing)),
        staging_bytes=_staging(surveyed) if plan.load in missing else 0.0,
        free_bytes=files.free_bytes(plan.store),
        requests_usd=sum(of_requests(forecast.stage, own) for forecast, own in zip(forecasts, stages, strict=True)),
    )


def _surveyed(plan: Quotable, sample: int) -> Survey:
    """The corpus, with so many of its passages; the sources are read only if the store does not have their passages.
    Raises NothingToTry."""
    if load := plan.manifest(plan.load):
        rows, passages = load.rows, _first(plan.load.artifact, load, sample)
        counts = load.rows_in, rows["passages"], rows.get("questions", 0)
        return Survey(1.0, 0.0, *counts, 0.0, passages, len(load.shards))
    surveyed = survey([each for _, each in plan.load.datasets], plan.parameters.load, sample, SURVEY_SECONDS)
    if not surveyed.sample:
        names = ", ".join(plan.parameters.datasets)
        raise NothingToTry(f"{names}: the part that was read has no usable passage")
    return surveyed


def _first(artifact: Artifact, load: Manifest, count: int) -> list[tuple[int, Passage]]:
    """The first passages of a store, by id: as ids are hashes of texts, they are as good as drawn."""
    found: list[tuple[int, Passage]] = []
    for shard in _holding(load, count):
        rows = artifact.read(shard, columns=["passage_id", "title", "text"]).slice(0, count - len(found)).to_pylist()
        found += [(row["passage_id"], Passage(row["title"], row["text"])) for row in rows]
    return found


def _holding(load: Manifest, count: int) -> list[int]:
    """The shards that have the first `count` passages."""
    shards, rows = [], 0
    for record in load.shards:
        if rows >= count:
            break
        shards.append(record.shard)
        rows += record.rows("passages")
    return shards


def _staging(surveyed: Survey) -> float:
    """Bytes of the staged rows of all sources."""
    text = sum(len(passage.text.encode()) + len(passage.title.encode()) for _, passage in surveyed.sample)
    return surveyed.records * (text / len(surveyed.sample) + STAGED_ROW)


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


def _forecasts(plan: Quotable, folder: Path, surveyed: Survey, announce: Announce) -> list[Forecast]:
    """Try the missing stages, with as many processes at once as the run will have."""
    load = plan.manifest(plan.load)
    tries = TryPassages(
        plan,
        typical([passage for _, passage in surveyed.sample]),
        surveyed.passages,
        _done(plan),
        _holding(load, CANDIDATES) if load else [],
    )
    copies = min(worker_count(plan.parameters), psutil.cpu_count() or 1)
    tried = in_processes(copies, tries, folder, announce)
    return [
        Forecast(stage, plan.parameters, *_means([[sample[stage.name] for sample in copy] for copy in tried]))
        for stage in plan.missing()
    ]


def _done(plan: Quotable) -> dict[str, Artifact]:
    """The artifacts of the stages that are done with all that they were made from, by the stages' names."""
    done: dict[str, Artifact] = {}
    missing = {stage.artifact.name for stage in plan.missing()}
    for stage in plan.stages:
        if {stage.artifact.name, *(read.name for read in stage.inputs.values())} & missing:
            missing.add(stage.artifact.name)
        else:
            done[stage.name] = stage.artifact
    return done


def _means(copies: Sequence[Sequence[StageSample]]) -> tuple[StageSample, list[StageSample]]:
    """The first sample of a stage, and the others that all copies had the time for: means over the copies."""
    cold, *warm = (StageSample.mean(samples) for samples in zip(*copies, strict=False))
    return cold, warm


def _share_known(stages: Sequence[Stage], surveyed: Survey) -> float:
    encode = next(stage for stage in stages if isinstance(stage, Encode))
    bases = reuse.candidates(encode.artifact, encode.description())
    ids, passages = zip(*surveyed.sample, strict=True)
    known_by = salts([passage.title if encode.titles else "" for passage in passages])
    return reuse.share_known(bases, np.array(ids, np.int64), known_by)


def _work(forecast: Forecast, surveyed: Survey, parameters: IndexCorpus, known: float) -> Work:
    """The work of a stage over the whole corpus."""
    stage, passages = forecast.stage, surveyed.passages
    work = Work(passages, surveyed.shards or shard_count(_size(surveyed), parameters.load))
    if isinstance(stage, Load):
        return replace(work, reading=surveyed.seconds, other_bytes=surveyed.other_bytes)
    if isinstance(stage, Split):
        characters = sum(len(passage.text) for _, passage in surveyed.sample) / len(surveyed.sample)
        return replace(work, prepared=min(passages, stage.config.sample_chars / characters))
    if isinstance(stage, Encode):
        tokens = passages * forecast.per_unit("tokens") * _longer(forecast, surveyed)
        return replace(work, tokens=(1 - known) * tokens)
    if isinstance(stage, Index):
        large = forecast.warm[-1]
        size = passages * large.disk * large.shards / large.units
        return replace(work, shards=max(1, ceil(size / (parameters.index.shard_mb << 20))))
    return work


def _left(stage: Stage, work: Work) -> Work:
    """The part of the work that a run which was killed has left to do."""
    done = sum(record.shard >= 0 for record in stage.artifact.records())
    if not done:
        return work
    share, tokens = max(0, work.shards - done) / work.shards, work.tokens
    return replace(
        work,
        units=share * work.units,
        shards=max(1, work.shards - done),
        tokens=None if tokens is None else share * tokens,
        prepared=0.0,
        reading=0.0,
    )


def _longer(forecast: Forecast, surveyed: Survey) -> float:
    """The mean length of a passage, as a multiple of that of those that were tried."""
    lengths = [len(each.title) + len(each.text) for each in typical([passage for _, passage in surveyed.sample])]
    tried = lengths[: round(sum(sample.units for sample in forecast.samples))]
    return sum(lengths) / len(lengths) * len(tried) / max(1, sum(tried))


def _size(surveyed: Survey) -> CorpusSize:
    """Estimate the size of the whole corpus from the sample."""
    sizes = zip(*(size_of(passage) for _, passage in surveyed.sample), strict=True)
    _, size, sentences = (sum(column) * surveyed.passages / len(surveyed.sample) for column in sizes)
    return CorpusSize(surveyed.passages, size * (1 + surveyed.other_bytes), sentences)
