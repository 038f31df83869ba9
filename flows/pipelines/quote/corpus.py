"""The estimate of work on passages before the run: `vitalfew plan DATASET`, and `vitalfew plan questions`.

The sources are read for a few seconds, unless the store has their passages, and the missing stages are tried on some of
these (sample.py). Work is counted in characters, because what a passage takes depends on its length.
"""

import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vitalfew.configs.schema import LoadConfig
from vitalfew.flows.pipelines.paying import asks_servers, of_requests
from vitalfew.flows.pipelines.quote.sample import (
    Announce,
    Quoted,
    Sample,
    estimate,
    measured,
    quoted_rows,
    start_seconds,
    timed,
    tried,
    try_missing,
    worker_count,
)
from vitalfew.flows.pipelines.write_questions import WritingPlan
from vitalfew.storage import files
from vitalfew.storage.costs import Quote, save_quotes
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import Dataset, InputError, Passage, Question
from vitalfew.tasks.datasets.files import bytes_read
from vitalfew.tasks.datasets.limits import CorpusSize, checked, shard_count, size_of
from vitalfew.tasks.encode import Encode
from vitalfew.tasks.encoders import reuse
from vitalfew.tasks.encoders.titles import salts
from vitalfew.tasks.stage import Stage
from vitalfew.tasks.write import Write

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.index_corpus import IndexPlan

CANDIDATES, SURVEY_SECONDS = 1024, 6.0
"""Passages that a sample is taken from, and how long the sources are read."""
FEW, MOST, PAID = 4, 64, 8
"""Passages that are tried: first, at most, and at most where a server is asked for every passage."""
SECONDS = 15.0
"""How long the sample may take."""
# Bytes of a staged row besides its text and title.
STAGED_ROW = 90
# A disk with AMPLE times the size of the sources, which may be compressed, is ample: indexes of dimension 384 took 40
# times the text. RECORD is the assumed size (bytes) of a record in a source that knows only its number of records.
AMPLE, RECORD = 500, 1000


@dataclass(frozen=True)
class Survey:
    """A `share` of the sources (1: all) was read; the counts and the `seconds` are those of the whole. `sample`: some
    passages by id, those with the smallest ids; `shards`: of the passages of a store, if they were read there."""

    share: float
    seconds: float
    records: float
    passages: float
    questions: float
    sample: list[tuple[int, Passage]]
    shards: int | None = None

    @property
    def complete(self) -> bool:
        return self.share >= 1

    @property
    def size(self) -> CorpusSize:
        """The size of the whole corpus."""
        sizes = zip(*(size_of(passage) for _, passage in self.sample), strict=True)
        _, size, sentences = (sum(column) * self.passages / len(self.sample) for column in sizes)
        return CorpusSize(self.passages, size, sentences)

    @property
    def characters(self) -> float:
        return self.passages * _characters([passage for _, passage in self.sample]) / len(self.sample)

    @property
    def staged_bytes(self) -> float:
        """The disk space that load needs for its rows."""
        return self.records * (self.characters / self.passages + STAGED_ROW)


def _characters(passages: Sequence[Passage]) -> int:
    return sum(len(passage.title) + len(passage.text) for passage in passages)


def survey(datasets: Sequence[Dataset], config: LoadConfig, sample: int, seconds: float) -> Survey:
    """Read for at most `seconds` (but always the first `sample` records), and count. Copies that lie further apart
    than what is read count as passages. Raises InputError."""
    ids, chosen, questions = set[int](), dict[int, Passage](), set[int]()
    totals = [dataset.total_records() for dataset in datasets]
    size = sum(files.status(path).size for dataset in datasets for path in dataset.files())
    began, before, records, share = time.perf_counter(), bytes_read(), 0, 1.0
    for _, record in chain.from_iterable(dataset.records() for dataset in datasets):
        records += 1
        record = checked(record, config)
        if isinstance(record, Passage):
            key = passage_id(record.text)
            ids.add(key)
            chosen[key] = record
            if len(chosen) > 2 * sample:
                chosen = dict(sorted(chosen.items())[:sample])
        elif isinstance(record, Question):
            questions.add(passage_id(record.text))
        if records % 256 == 0 and records >= sample and time.perf_counter() - began > seconds:
            if all(total is not None for total in totals):
                share = min(1.0, records / max(1, sum(filter(None, totals))))
                break
            if size and bytes_read() > before:
                share = min(1.0, (bytes_read() - before) / size)
                break
    return Survey(
        share=share,
        seconds=(time.perf_counter() - began) / share,
        records=records / share,
        passages=len(ids) / share,
        questions=len(questions) / share,
        sample=sorted(chosen.items())[:sample],
    )


def _headings(surveyed: Survey, known: float) -> list[str]:
    about = "" if surveyed.complete else "about "
    read = f"Read {'all' if surveyed.complete else f'{surveyed.share:.1%}'} of the sources"
    if surveyed.shards is not None:
        read = "The store has the passages"
    said = [f"{read}: {about}{surveyed.passages:,.0f} passages, {surveyed.questions:,.0f} questions."]
    if known:
        said.append(f"The store already has the vectors of {known:.1%} of the passages; they are not encoded again.")
    return said


class NothingToTry(InputError):
    """None of the surveyed passages can be used; a run would read further."""


def check_room(plan: "IndexPlan") -> None:
    """Raise DoesNotFit if the disk has no room for the artifacts of a run, which is estimated unless the disk is ample
    for the sources."""
    sources = sum(files.status(path).size for path in plan.load.files)
    records = sum(dataset.total_records() or 0 for _, dataset in plan.load.datasets)
    if files.free_bytes(plan.store) <= AMPLE * (sources + records * RECORD):
        with suppress(NothingToTry):
            quote(plan).check()


def quote(plan: "IndexPlan", announce: Announce = lambda text: None) -> Quoted:
    """Estimate a run, and store the estimates of whole artifacts in its store. `announce`: called with what is done
    now. Raises InputError as the run itself would."""
    parameters, missing = plan.parameters, plan.missing()
    announce("reading the sources")
    surveyed, shards = _surveyed(plan, CANDIDATES if missing else 0)
    encode = next((stage for stage in missing if isinstance(stage, Encode)), None)
    known = _share_known(encode, surveyed) if encode else 0.0
    samples = _tried(plan, surveyed, shards, announce) if missing else {}
    whole = [_whole(plan, stage, samples[stage.artifact.name], surveyed, known) for stage in missing]
    save_quotes(plan.store, whole)
    stages = [_left(stage, own) for stage, own in zip(missing, whole, strict=True)]
    return Quoted(
        headings=_headings(surveyed, known),
        rows=quoted_rows(plan.stages, stages),
        workers=worker_count(parameters),
        start_seconds=start_seconds(parameters, len(missing)),
        staging_bytes=surveyed.staged_bytes if plan.load in missing else 0.0,
        free_bytes=files.free_bytes(plan.store),
        requests_usd=sum(map(of_requests, missing, stages)),
    )


def _surveyed(plan: "IndexPlan", sample: int) -> tuple[Survey, list[int]]:
    """The corpus, with so many of its passages: those of the store, and the shards that have them, or of the sources.
    Raises NothingToTry."""
    if load := plan.manifest(plan.load):
        passages: list[tuple[int, Passage]] = []
        shards: list[int] = []
        for record in load.shards:  # ids are hashes of texts: the first passages are as good as drawn
            if len(passages) < sample:
                shards.append(record.shard)
                rows = plan.load.artifact.read(record.shard, columns=["passage_id", "title", "text"]).to_pylist()
                passages += [(row["passage_id"], Passage(row["title"], row["text"])) for row in rows]
        counts = load.rows_in, load.rows["passages"], load.rows.get("questions", 0)
        return Survey(1.0, 0.0, *counts, passages[:sample], len(load.shards)), shards
    surveyed = survey([each for _, each in plan.load.datasets], plan.parameters.load, sample, SURVEY_SECONDS)
    if not surveyed.sample:
        names = ", ".join(plan.parameters.datasets)
        raise NothingToTry(f"{names}: the part that was read has no usable passage")
    return surveyed, []


def _tried(plan: "IndexPlan", surveyed: Survey, shards: list[int], announce: Announce) -> dict[str, Sample]:
    """Try the missing stages on passages of every length. `shards`: of the store's that have the sample."""
    by_size = sorted((passage for _, passage in surveyed.sample), key=lambda passage: _characters([passage]))
    numbers = count()

    def run(size: int) -> dict[str, Sample]:
        size = min(size, len(by_size))
        passages = [by_size[len(by_size) * (2 * place + 1) // (2 * size)] for place in range(size)]
        trial = plan.over(passages, Path(folder, str(next(numbers))))
        pairs = [*zip(trial.stages, plan.stages, strict=True)]
        return try_missing(pairs, plan, _characters(passages), announce, shards)

    most = PAID if any(map(asks_servers, plan.missing())) else MOST
    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:
        return tried(run, FEW, min(most, len(by_size)), SECONDS)


def _share_known(encode: Encode, surveyed: Survey) -> float:
    bases = reuse.candidates(encode.artifact, encode.description())
    ids, passages = zip(*surveyed.sample, strict=True)
    known_by = salts([passage.title if encode.titles else "" for passage in passages])
    return reuse.share_known(bases, np.array(ids, np.int64), known_by)


def _whole(plan: "IndexPlan", stage: Stage, sample: Sample, surveyed: Survey, known: float) -> Quote:
    """Estimate a stage over the whole corpus."""
    parameters, characters = plan.parameters, surveyed.characters
    shards = surveyed.shards or shard_count(surveyed.size, parameters.load)
    if isinstance(stage, Encode):
        tokens = (1 - known) * characters * sample.tokens / sample.units
        return estimate(stage, parameters, sample, characters, shards, tokens=tokens)
    own = estimate(stage, parameters, sample, characters, shards)
    if stage is plan.load:
        wall, cpu = own.wall_seconds + surveyed.seconds, own.cpu_seconds + surveyed.seconds
        own = replace(own, rows=round(surveyed.passages), wall_seconds=wall, cpu_seconds=cpu)
    return own


def _left(stage: Stage, whole: Quote) -> Quote:
    """The part of an estimate that a run which was killed has left to do: the share of its shards that are not done."""
    if not any(record.shard >= 0 for record in stage.artifact.records()):
        return whole
    share = len(stage.pending()) / len(stage.shards())
    counts = {name: round(share * getattr(whole, name)) for name in ("rows", "tokens", "disk_bytes")}
    others = ("wall_seconds", "cpu_seconds", "gpu_seconds", "usd")
    return replace(whole, **counts, **{name: share * getattr(whole, name) for name in others})


def quote_writing(plan: WritingPlan, announce: Announce) -> Quoted:
    """Estimate a run, as if every passage gave a question, and keep the estimate for `costs`. Nothing is sent to a
    server: its tokens follow from the lengths of the passages and of the longest reply, its time from earlier runs.
    Raises the errors of the writer."""
    workers = worker_count(plan.parameters)
    if plan.done():
        return Quoted(rows=quoted_rows([plan.writing], []), workers=workers)
    stage, config = plan.writing, plan.parameters.write
    units, most = min(config.n, plan.passages), min(config.n * config.spare, plan.passages)
    bases = [
        f"assumes that every passage gives a question; where one is refused, another is tried, at most {most:,} in all"
    ]
    if asks_servers(stage):
        each = plan.tokens_of_a_question()
        sample = Sample(1, 1, 1, round(each), 0.0, 0.0, 0, 0)
        bases.append(f"{each:,.0f} tokens per question: prompts, and replies as long as they may be")
    else:
        sample = _tried_writer(plan, announce)
    quote = estimate(stage, plan.parameters, sample, units, ceil(units / config.batch), rows=units)
    if asks_servers(stage):
        if not (quoted := timed(plan.store, stage, quote)):
            bases.append(f"the time of {stage.model_name} is unknown and not included")
        quote = quoted or quote
    save_quotes(plan.store, [quote])
    start, usd = start_seconds(plan.parameters, 1), of_requests(stage, quote)
    rows = quoted_rows([stage], [quote])
    return Quoted(rows=rows, workers=workers, start_seconds=start, requests_usd=usd, bases=bases)


def _tried_writer(plan: WritingPlan, announce: Announce) -> Sample:
    folders = count()

    def run(size: int) -> dict[str, Sample]:
        size = min(size, plan.passages)
        announce(f"write, on {size} {'passage' if size == 1 else 'passages'}")
        config = plan.writing.config.model_copy(update={"n": size, "spare": 1})
        stage = Write(Path(folder, str(next(folders))), plan.writing.inputs["passages"], config)
        return {stage.name: measured(stage, size)}

    with tempfile.TemporaryDirectory() as folder:
        return tried(run, 1, min(MOST, plan.passages), SECONDS)[plan.writing.name]
