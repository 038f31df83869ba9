"""The estimate of a run before it begins, by stage and model: what a row of a sample takes, times the rows of the run.

The missing stages run in this process, in a temporary folder: on a few rows, and then on as many as fit in some
seconds. The second time tells what a row takes; what the first one took beyond that is for loading models. An estimate
is within about a third of what the run then takes. Finished work costs nothing, and no request is sent to a server:
its answers are assumed.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from math import ceil, exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psutil
from rich.filesize import decimal

from vitalfew.configs.evaluation import Questions
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import CANDIDATES, Execution, LoadConfig
from vitalfew.flows.pipelines.evaluate import EvaluationPlan, Stages, evaluation_stages
from vitalfew.flows.pipelines.paying import asks_servers, check_prices, of_requests, up
from vitalfew.flows.pipelines.run import Plan, in_order
from vitalfew.flows.pipelines.runner import SECONDS, source_bytes, start_seconds, worker_count
from vitalfew.flows.pipelines.write_questions import WritingPlan
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, Manifest, fingerprint, whole_bases
from vitalfew.storage.costs import LOADING, Quote, charge, read_ledger, save_quotes
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.datasets.base import Dataset, InputError, Passage, Question
from vitalfew.tasks.datasets.files import bytes_read
from vitalfew.tasks.datasets.limits import CorpusSize, checked, shard_count, size_of
from vitalfew.tasks.encode import Encode
from vitalfew.tasks.encoders import reuse
from vitalfew.tasks.encoders.titles import salts
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.index import Index
from vitalfew.tasks.load import Load
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.budget import dollars
from vitalfew.tasks.models.causal.engines.remote import Remote, assuming
from vitalfew.tasks.stage import ReusingStage, Stage
from vitalfew.tasks.write import Write

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.index_corpus import IndexPlan

Announce = Callable[[str], None]
"""Called with what is tried now, in words."""
PASSAGES, QUESTIONS, PAID = 64, 32, 8
"""The most passages and questions that are tried, and passages where a server is asked for every one."""
DRAWN, SURVEY_SECONDS = 1024, 6.0
"""Passages that a sample is taken from, and how long the sources are read."""
INDEX_SECONDS, EVALUATION_SECONDS = 15.0, 30.0
"""How long a sample may take."""
# The memory (bytes) of a worker that Ray itself uses.
RAY_WORKER = 115 << 20
# A disk with AMPLE times the size of the sources, which may be compressed, is ample: indexes of dimension 384 took 40
# times the text.
AMPLE = 500
ENOUGH = 8
"""Earlier answers that make a mean length."""
BYTES = 4
"""Bytes of UTF-8 per token, assumed for a server's model."""
OPEN = "the settings are not chosen yet: those that take the most tokens are estimated"


class QuotedStage(NamedTuple):
    """A stage of a run, the model that it asks or computes, and its estimate; None: it is finished."""

    stage: str
    model: str
    quote: Quote | None


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """The estimate of a run, or of a part of it. `rows`: its stages in order; `start_seconds`: time outside these;
    `requests_usd`: the part of the USD that is for requests to servers; `bases`: what the figures rest on besides the
    sample, and `headings`: what is above the stages, in words; `free_bytes`: free space on the disk, None where a run
    needs little; `parts`: evaluations that are shown one by one, each with its number of `questions`."""

    rows: Sequence[QuotedStage]
    workers: int
    start_seconds: float = 0.0
    requests_usd: float = 0.0
    bases: Sequence[str] = ()
    headings: Sequence[str] = ()
    free_bytes: int | None = None
    parts: Sequence["Quoted"] = ()
    questions: int = 0

    @property
    def stages(self) -> list[Quote]:
        """The estimates of the stages that are missing."""
        return [row.quote for row in self.rows if row.quote]

    @property
    def tokens(self) -> int:
        return sum(quote.tokens for quote in self.stages)

    @property
    def wall_seconds(self) -> float:
        return self.start_seconds + sum(quote.wall_seconds for quote in self.stages)

    @property
    def disk_bytes(self) -> int:
        """The disk space that the artifacts of the run need."""
        return sum(quote.disk_bytes for quote in self.stages)

    def check(self) -> None:
        """Raises DoesNotFit."""
        if self.free_bytes is not None and self.disk_bytes > self.free_bytes:
            raise DoesNotFit(
                f"the run needs about {decimal(self.disk_bytes)}, but the disk has {decimal(self.free_bytes)} "
                "free. Free some space, use --store on another disk, or store less: --set index.layout=fused, "
                "--set index.type=sq8 or --set 'encode.units=[sentence]'"
            )


class DoesNotFit(ValueError):
    """The disk has less room than the run needs."""


class NothingToTry(InputError):
    """None of the surveyed passages can be used; a run would read further."""


def quote(plan: Plan, announce: Announce = lambda text: None) -> Quoted:
    """Estimate a run of `index`, `evaluate` or `questions write`, and store the estimates of its stages in its store.
    `announce`: called with what is done now. Raises InputError, and the errors of the stages, as the run itself
    would."""
    if isinstance(plan, EvaluationPlan):
        return _quote_evaluation(plan, announce)
    if isinstance(plan, WritingPlan):
        return _quote_writing(plan, announce)
    return _quote_index(plan, announce)  # type: ignore[arg-type]


def _kept(plan: Plan, quotes: Sequence[Quote], **more: Any) -> Quoted:
    """Store the estimates of a plan's missing stages."""
    save_quotes(plan.store, [*quotes])
    known = {quote.fingerprint: quote for quote in quotes}
    stages = [(stage, known.get(stage.artifact.fingerprint)) for stage in plan.stages]
    return Quoted(
        rows=[QuotedStage(stage.name, stage.model_name or "", own) for stage, own in stages],
        workers=worker_count(plan.parameters),
        start_seconds=start_seconds(plan.parameters, len({quote.stage for quote in quotes})),
        requests_usd=sum(of_requests(stage, own) for stage, own in stages if own),
        **more,
    )


# A sample


@dataclass(frozen=True)
class Sample:
    """The costs of a stage on a sample of `units`, such as questions; times in seconds, sizes in bytes. `loading_*`: of
    models, in one process, and in no other figure. `fixed`: what the files of a shard take of `disk` without rows."""

    units: float
    rows: int
    tokens: int
    wall: float
    cpu: float
    memory: int
    disk: int
    loading_wall: float = 0.0
    loading_cpu: float = 0.0
    fixed: float = 0.0


def _measured(stage: Stage, units: float) -> Sample:
    """Run a stage on a sample; the stages before it must be finished. Raises the errors of the stage."""
    manifest = stage.run("plan")
    ledger = read_ledger(stage.artifact.ledger)
    wall, cpu, tokens = (sum(row[name] or 0 for row in ledger) for name in ("wall_seconds", "cpu_seconds", "tokens"))
    memory = max((row["peak_memory_bytes"] or 0 for row in ledger if row["stage"] != LOADING), default=0)
    disk = sum(file.bytes for file in manifest.files())
    return Sample(units, manifest.rows.get(stage.table, 0), tokens, wall, cpu, memory, disk)


def _trial(pairs: Sequence[tuple[Stage, Stage]], plan: Plan, units: float, announce: Announce) -> dict[str, Sample]:
    """Run the stages that are missing on a sample, with those that they follow, and return what the missing ones took,
    by the artifact of the plan. `pairs`: in order, a stage on the sample and the one of the plan."""
    due, read = list[tuple[Stage, Stage]](), set[str]()
    for stage, whole in reversed(pairs):
        if stage.artifact.name in read or not plan.manifest(whole):
            due.insert(0, (stage, whole))
            read |= {each.name for each in stage.inputs.values()}
    found = dict[str, Sample]()
    for stage, whole in due:
        if isinstance(stage, ReusingStage):
            stage.trial_of = plan.store.absolute()  # what the store knows is not asked for
        announce(f"{stage.name}: a sample")
        sample = _measured(stage, units)
        if not plan.manifest(whole):
            found[whole.artifact.name] = sample
    return found


def tried(run: Callable[[int], dict[str, Sample]], few: int, most: int, seconds: float) -> dict[str, Sample]:
    """Measure stages on `few` rows, and then on twice as many, or as many as take about these seconds, up to `most`.
    `run`: runs the stages on a number of rows. The memory is that of the first time: later stages had not loaded models
    yet."""
    first = run(few)
    took = sum(min(each.wall, each.cpu) for each in first.values())  # other work stretches the wall
    last = run(max(few, min(most, max(2 * few, int(few * seconds / max(took, 1e-3))))))
    for name, own in last.items():
        before, share = first[name], first[name].units / own.units
        wall, cpu = max(0.0, before.wall - share * own.wall), max(0.0, before.cpu - share * own.cpu)
        fixed = max(0.0, before.disk - share * own.disk) / (1 - share) if share < 1 else 0.0
        last[name] = replace(own, memory=before.memory, loading_wall=wall, loading_cpu=cpu, fixed=fixed)
    return last


def estimate(
    stage: Stage, parameters: Execution, sample: Sample, units: float, shards: int, computed: float = 1.0
) -> Quote:
    """Estimate `units` of work. `computed`: the share of these that takes tokens and time; the rest is only copied."""
    share, workers, is_serial = units / sample.units, worker_count(parameters), parameters.runner == "serial"
    side = min(workers, shards, stage.workers or shards)
    wall, cpu = share * computed * sample.wall, share * computed * sample.cpu
    # Workers share the shards, but none makes the cores of the machine faster.
    shared = max(wall * ceil(shards / side) / shards, min(wall, cpu / (psutil.cpu_count() or 1)))
    gpu = stage.num_gpus * (side * sample.loading_wall + wall)
    cpu += side * sample.loading_cpu
    tokens, disk = share * computed * sample.tokens, shards * sample.fixed + share * (sample.disk - sample.fixed)
    return Quote(
        fingerprint=stage.artifact.fingerprint,
        stage=stage.name,
        runner="serial" if is_serial else "ray",
        workers=workers,
        rows=round(share * sample.rows),
        tokens=round(tokens),
        wall_seconds=sample.loading_wall + shared,
        cpu_seconds=cpu,
        gpu_seconds=gpu,
        peak_memory_bytes=round(sample.memory + disk / shards + (0 if is_serial else RAY_WORKER)),
        disk_bytes=round(disk),
        usd=charge(cpu, gpu, tokens, stage.model_name),
    )


def _left(stage: Stage) -> float:
    """The share of a stage's shards that are not done: a run that was killed has done the others."""
    if not any(record.shard >= 0 for record in stage.artifact.records()):
        return 1.0
    return len(stage.pending()) / len(stage.shards())


# Passages: `plan DATASET`


class Survey(NamedTuple):
    """Passages and questions of the sources, of which a `share` (1: all) was read in so many `seconds` for the whole.
    `sample`: some passages by id, those with the smallest ids."""

    passages: float
    questions: float
    sample: list[tuple[int, Passage]]
    share: float = 1.0
    seconds: float = 0.0

    @property
    def size(self) -> CorpusSize:
        """The size of the whole corpus."""
        sizes = np.array([size_of(passage) for _, passage in self.sample])
        return CorpusSize(*(sizes.mean(axis=0) * self.passages).tolist())


def survey(datasets: Sequence[Dataset], config: LoadConfig, sample: int, seconds: float) -> Survey:
    """Read for at most `seconds` (but always the first `sample` records), and count. Copies that lie further apart
    than what is read count as passages. Raises InputError."""
    ids, chosen, questions = set[int](), dict[int, Passage](), 0
    totals = [dataset.total_records() for dataset in datasets]
    size = sum(files.status(path).size for dataset in datasets for path in dataset.files())
    began, before, share = time.perf_counter(), bytes_read(), 1.0
    for records, (_, record) in enumerate(chain.from_iterable(dataset.records() for dataset in datasets), 1):
        record = checked(record, config)
        questions += isinstance(record, Question)
        if isinstance(record, Passage):
            ids.add(key := passage_id(record.text))
            chosen[key] = record
            if len(chosen) > 2 * sample:
                chosen = dict(sorted(chosen.items())[:sample])
        if records % 256 == 0 and records >= sample and time.perf_counter() - began > seconds:
            if all(total is not None for total in totals):
                share = min(1.0, records / max(1, sum(filter(None, totals))))
                break
            if size and bytes_read() > before:
                share = min(1.0, (bytes_read() - before) / size)
                break
    taken = (time.perf_counter() - began) / share
    return Survey(len(ids) / share, questions / share, sorted(chosen.items())[:sample], share, taken)


def check_room(plan: "IndexPlan") -> None:
    """Raise DoesNotFit if the disk has no room for the artifacts of a run, which is estimated unless the disk is ample
    for the sources."""
    if files.free_bytes(plan.store) <= AMPLE * source_bytes(plan):
        with suppress(NothingToTry):
            quote(plan).check()


def _quote_index(plan: "IndexPlan", announce: Announce) -> Quoted:
    announce("reading the sources")
    quotes, surveyed, known = _quotes_of_index(plan, announce)
    headings = [*_headings(surveyed, known, plan.manifest(plan.load) is not None)]
    both = [*_both_ways(plan, quotes, surveyed.passages)]
    return _kept(plan, quotes, headings=headings, bases=both, free_bytes=files.free_bytes(plan.store))


def _quotes_of_index(plan: "IndexPlan", announce: Announce) -> tuple[list[Quote], Survey, float]:
    """The estimates of the missing stages, the corpus, and the share of its passages whose vectors the store has."""
    parameters, missing, load = plan.parameters, plan.missing(), plan.manifest(plan.load)
    surveyed = _stored(plan, load) if load else _read(plan)
    shards = len(load.shards) if load else shard_count(surveyed.size, parameters.load)
    encode = next((stage for stage in missing if isinstance(stage, Encode)), None)
    known = _share_known(encode, surveyed) if encode else 0.0
    samples = _tried_index(plan, surveyed, announce) if missing else {}
    quotes = list[Quote]()
    for stage in missing:
        computed = 1 - known if stage is encode else 1.0
        units = surveyed.passages * _left(stage)
        own = estimate(stage, parameters, samples[stage.artifact.name], units, shards, computed)
        if stage is plan.load:
            wall, cpu = own.wall_seconds + surveyed.seconds, own.cpu_seconds + surveyed.seconds
            own = replace(own, rows=round(surveyed.passages), wall_seconds=wall, cpu_seconds=cpu)
        quotes.append(own)
    return quotes, surveyed, known


def _both_ways(plan: "IndexPlan", quotes: Sequence[Quote], passages: float) -> Iterator[str]:
    """Say what encoding every passage takes, and what encoding them later would, where keywords find passages."""
    encode = next((quote for quote in quotes if quote.stage == Encode.name), None)
    if encode and plan.parameters.bm25.enabled:
        now = [quote for quote in quotes if quote.stage not in (Encode.name, Index.name)]
        question = encode.wall_seconds * min(1.0, CANDIDATES / max(1.0, passages))
        seconds, size = (sum(getattr(quote, name) for quote in quotes) for name in ("wall_seconds", "disk_bytes"))
        later, less = (sum(getattr(quote, name) for quote in now) for name in ("wall_seconds", "disk_bytes"))
        yield (
            f"every passage encoded now: {seconds:,.0f} s, {decimal(size)}; with --encode later: {later:,.0f} s, "
            f"{decimal(less)}, and at most {question:,.1f} s for a question"
        )


def encoding(plan: "IndexPlan", questions: int) -> tuple[float, float]:
    """The seconds that an index's vectors take, without the other work of the machine; and the share of passages that
    so many questions ask for where they are encoded later, as if keywords drew them at random (200 questions over
    19,625 passages: 64 %, measured 54 %). Nothing is stored. Raises InputError, and the errors of the stages."""
    quotes, surveyed, _ = _quotes_of_index(plan, lambda text: None)
    seconds = sum(min(quote.wall_seconds, quote.cpu_seconds) for quote in quotes if quote.stage == Encode.name)
    return seconds, 1 - exp(-questions * CANDIDATES / surveyed.passages)


def _headings(surveyed: Survey, known: float, is_stored: bool) -> Iterator[str]:
    about = "" if surveyed.share >= 1 else "about "
    read = f"Read {'all' if surveyed.share >= 1 else f'{surveyed.share:.1%}'} of the sources"
    read = "The store has the passages" if is_stored else read
    yield f"{read}: {about}{surveyed.passages:,.0f} passages, {surveyed.questions:,.0f} questions."
    if known:
        yield f"The store already has the vectors of {known:.1%} of the passages; they are not encoded again."


def _stored(plan: "IndexPlan", load: Manifest) -> Survey:
    """The corpus by the passages of the store: ids are hashes of texts, and the first ones are as good as drawn."""
    sample: list[tuple[int, Passage]] = []
    for record in load.shards:
        if len(sample) < DRAWN:
            rows = plan.load.artifact.read(record.shard, columns=["passage_id", "title", "text"]).to_pylist()
            sample += [(row["passage_id"], Passage(row["title"], row["text"])) for row in rows]
    return Survey(load.rows["passages"], load.rows.get("questions", 0), sample[:DRAWN])


def _read(plan: "IndexPlan") -> Survey:
    """The corpus by its sources. Raises NothingToTry."""
    datasets = [dataset for _, dataset in plan.load.datasets]
    if not (surveyed := survey(datasets, plan.parameters.load, DRAWN, SURVEY_SECONDS)).sample:
        names = ", ".join(plan.parameters.datasets)
        raise NothingToTry(f"{names}: the part that was read has no usable passage")
    return surveyed


def _tried_index(plan: "IndexPlan", surveyed: Survey, announce: Announce) -> dict[str, Sample]:
    """Try the missing stages on passages of every length."""
    by_size = sorted((passage for _, passage in surveyed.sample), key=lambda each: len(each.title) + len(each.text))

    def run(size: int) -> dict[str, Sample]:
        size = min(size, len(by_size))
        passages = [by_size[len(by_size) * (2 * place + 1) // (2 * size)] for place in range(size)]
        trial = plan.over(passages, Path(tempfile.mkdtemp(dir=folder)))
        return _trial([*zip(trial.stages, plan.stages, strict=True)], plan, size, announce)

    is_paid = any(map(asks_servers, plan.missing()))  # else a finished stage sends nothing: its answers are assumed
    assumed = nullcontext() if is_paid else assuming(_assumption(plan.store, {}))
    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder, assumed:
        return tried(run, 4, PAID if is_paid else PASSAGES, INDEX_SECONDS)


def _share_known(encode: Encode, surveyed: Survey) -> float:
    """The share of the passages whose vectors the store has."""
    bases = reuse.candidates(encode.artifact, encode.description())
    ids, passages = zip(*surveyed.sample, strict=True)
    known_by = salts([passage.title if encode.titles else "" for passage in passages])
    return reuse.share_known(bases, np.array(ids, np.int64), known_by)


# Questions: `plan EXPERIMENT`


def _quote_evaluation(plan: EvaluationPlan, announce: Announce) -> Quoted:
    """Where settings are not chosen yet, the alternative that takes the most tokens counts."""
    alternatives = plan.alternatives()
    due = sum(any(each.missing() for each in plans) for plans in alternatives)
    seconds = EVALUATION_SECONDS / max(1, due)
    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:  # alternatives share most of their stages
        of_part = partial(_part, folder=Path(folder), seconds=seconds, announce=announce)
        parts = [max(map(of_part, plans), key=lambda part: part.tokens) for plans in alternatives]
    is_open = any(len(plans) > 1 for plans in alternatives)
    return Quoted(
        rows=[row for part in parts for row in part.rows],
        workers=worker_count(plan.parameters),
        start_seconds=start_seconds(plan.parameters, sum(len({each.stage for each in part.stages}) for part in parts)),
        requests_usd=sum(part.requests_usd for part in parts),
        bases=[*dict.fromkeys(basis for part in parts for basis in part.bases), *([OPEN] * is_open)],
        parts=parts,
    )


def _part(plan: EvaluationPlan, folder: Path, seconds: float, announce: Announce) -> Quoted:
    parameters, bases, quotes = plan.parameters, dict[str, None](), list[Quote]()
    asked = _asked(plan, folder)
    if missing := plan.missing():
        with assuming(_assumption(plan.store, bases)):
            run = partial(_try_questions, plan, folder, announce)
            samples = tried(run, 1, min(QUESTIONS, asked), seconds)
        for stage in (stage for stage in missing if stage.artifact.name in samples):
            units = asked * _left(stage)
            shards = max(1, ceil(units / parameters.questions.batch))
            own = estimate(stage, parameters, samples[stage.artifact.name], units, shards)
            quotes.append(_timed(plan.store, stage, own, bases))
    heading = f"{parameters.name}: {asked:,} questions"
    return _kept(plan, quotes, headings=[heading], questions=asked, bases=[*bases])


def _asked(plan: EvaluationPlan, folder: Path) -> int:
    """The number of questions that a run asks. Raises InputError where there are none, or too few."""
    ask = plan.ask
    if not plan.manifest(ask):
        stages = next(iter(_on(plan, folder, plan.parameters.questions).values()))
        for name in (Load.name, Ask.name):
            if name in stages and stages[name].store != plan.store.absolute():
                stages[name].run("plan")
        ask = stages[Ask.name]
    manifest = ask.artifact.completed()
    plan.check(ask, manifest)
    return manifest.rows[ask.table]


def _on(plan: EvaluationPlan, folder: Path, questions: Questions) -> Stages:
    """The stages of the plan in the temporary folder, of these questions."""
    parameters = plan.parameters.model_copy(update={"store": folder, "questions": questions})
    return evaluation_stages(parameters, plan.indexes, plan.store)


def _try_questions(plan: EvaluationPlan, folder: Path, announce: Announce, size: int) -> dict[str, Sample]:
    """Try the missing stages on so many questions, drawn by a seed of their own."""
    given = plan.parameters.questions
    stages = _on(plan, folder, given.model_copy(update={"sample": size, "batch": size, "seed": given.seed + size}))
    planned = {
        stage.artifact.name: (stage, plan.by_method[method][name])
        for method, own in stages.items()
        for name, stage in own.items()
    }
    groups = in_order(stage for stage, _ in planned.values())
    pairs = [planned[stage.artifact.name] for group in groups for stage in group]
    choosing = {whole.artifact.name for _, whole in pairs if isinstance(whole, Ask | Load)}
    found = _trial(pairs, plan, size, announce)
    return {name: sample for name, sample in found.items() if name not in choosing}


def _assumption(store: Path, bases: dict[str, None]) -> Callable[[Remote, str], Completion]:
    """Assume the answers of a server's model: as long as its earlier answers in a store were on average, else as long
    as they may be. `bases`: gets the basis in words."""

    @cache
    def answer(name: str, key: str, most: int) -> float:
        lengths = _answers(store, key)
        tokens = sum(lengths) / max(1, len(lengths))
        basis = f"{tokens:,.1f} tokens per answer (mean of {len(lengths):,} earlier ones)"
        if len(lengths) < ENOUGH:
            tokens, basis = most, f"max_tokens={most:,} for every answer (the maximum cost)"
        bases[f"nothing was sent to {name}; estimate: a token for {BYTES} bytes of a prompt, {basis}"] = None
        return tokens

    def assumed(engine: Remote, prompt: str) -> Completion:
        most, name = engine.options.max_tokens, engine.options.model or type(engine).__name__
        written = max(1, round(min(most, answer(name, fingerprint(engine=engine.identity()), most))))
        return Completion(" ".join(["word"] * written), round(len(prompt.encode()) / BYTES), written, 0.0)

    return assumed


def _answers(store: Path, engine: str) -> list[int]:
    """The tokens of the answers of an engine, by its fingerprint; damaged files do not count."""
    artifacts = (Artifact(store, Generate.table, folder.name) for folder in files.folders(store / Generate.table))
    manifests = filter(None, (artifact.recorded_manifest() for artifact in artifacts))
    own = (each for each in manifests if fingerprint(engine=each.method["generator"]) == engine)
    paths = whole_bases(store, [file for each in own for file in each.files() if file.table == Generate.table])
    tables = [files.read_table(path, ["completion_tokens", "error"]) for path in paths]
    return [row["completion_tokens"] for table in tables for row in table.to_pylist() if not row["error"]]


def _timed(store: Path, stage: Stage, own: Quote, bases: dict[str, None]) -> Quote:
    """An estimate; of a stage that asks a server, with the time that its model took per token in earlier runs."""
    if not asks_servers(stage):
        return own
    rows: Iterable[dict[str, Any]] = chain.from_iterable(map(read_ledger, files.find(store, "costs/*/*.parquet")))
    rows = [row for row in rows if (row["stage"], row["model"]) == (stage.name, stage.model_name) and row["shard"] >= 0]
    if not (tokens := sum(row["tokens"] for row in rows)):
        bases[f"the time of {stage.model_name} is unknown and not included"] = None
        return own
    wall, cpu = (own.tokens / tokens * sum(row[name] for row in rows) for name in ("wall_seconds", "cpu_seconds"))
    return replace(own, wall_seconds=wall, cpu_seconds=cpu, usd=charge(cpu, 0, own.tokens, stage.model_name))


# Written questions: `plan questions`


def _quote_writing(plan: WritingPlan, announce: Announce) -> Quoted:
    """Estimate as if every passage gave a question. Nothing is sent to a server: its tokens follow from the lengths of
    the passages and of the longest reply."""
    if plan.done():
        return _kept(plan, [])
    stage, config = plan.writing, plan.parameters.write
    units, most = min(config.n, plan.passages), min(config.n * config.spare, plan.passages)
    said = "assumes that every passage gives a question; where one is refused, another is tried, at most"
    bases: dict[str, None] = {f"{said} {most:,} in all": None}
    if asks_servers(stage):
        each = plan.tokens_of_a_question()
        sample = Sample(1, 1, round(each), 0.0, 0.0, 0, 0)
        bases[f"{each:,.0f} tokens per question: prompts, and replies as long as they may be"] = None
    else:
        sample = _tried_writer(plan, announce)
    own = replace(estimate(stage, plan.parameters, sample, units, ceil(units / config.batch)), rows=units)
    return _kept(plan, [_timed(plan.store, stage, own, bases)], bases=[*bases])


def _tried_writer(plan: WritingPlan, announce: Announce) -> Sample:
    def run(size: int) -> dict[str, Sample]:
        announce(f"write, on {size} {'passage' if size == 1 else 'passages'}")
        config = plan.writing.config.model_copy(update={"n": size, "spare": 1})
        stage = Write(Path(tempfile.mkdtemp(dir=folder)), plan.writing.inputs["passages"], config)
        return {stage.name: _measured(stage, size)}

    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:
        return tried(run, 1, min(PASSAGES, plan.passages), INDEX_SECONDS)[plan.writing.name]


# The cap: `max_usd`


class AboveCap(ConfigError):
    """The estimate is above the cap, and nobody said to go on."""


def check_cap(
    plan: Plan, ask: Callable[[str], bool] | None = None, quoting: AbstractContextManager[Any] | None = None
) -> None:
    """Compare the estimate of a run with `max_usd`, once; a training, which has no estimate, stops at the cap. `ask`:
    asks whoever is there whether to begin although it is above; `quoting` is entered while the run is estimated, for up
    to a minute. Raises NoPrice, and AboveCap."""
    most = plan.parameters.max_usd
    if most is None or plan.is_allowed or plan.done():
        return
    plan.is_allowed = True
    stages = plan.missing() or plan.stages  # of a choice, whose other half is left
    if not check_prices(stages) or plan.parameters.until_cap:
        return
    with quoting or nullcontext():
        # A training has no estimate.
        plan.quoted_usd = quoted = quote(plan).requests_usd if plan.flow in SECONDS else None
    if quoted is None or quoted <= most:
        return
    told = f"the estimate is {dollars(quoted)} for requests to servers, above the cap of {dollars(most)}"
    if not (ask and ask(f"{told[0].upper()}{told[1:]}. Begin, and stop at the cap?")):
        less = "--n N" if plan.flow == "write_questions" else "--set questions.sample=N"
        raise AboveCap(
            f"{told}. Nothing was sent. Allow more (--max-usd {up(quoted)}), ask for less ({less}), or begin and stop "
            "at the cap: --yes"
        )
