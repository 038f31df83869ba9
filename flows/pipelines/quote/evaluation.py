"""The quote of an evaluation before its start: what every method will ask, read and write, how long it takes, what it
costs.

A few of the questions are tried (questions.py), and all others estimated from them (estimates.py), with the help of
what the store knows of earlier runs (history.py). What is finished costs nothing; nor does a prompt that was answered
before, or that an earlier method asks. No request is sent to a server.
"""

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from vitalfew.configs.evaluation import Evaluate
from vitalfew.flows.pipelines.evaluate import EvaluationPlan
from vitalfew.flows.pipelines.quote.corpus import RAY_WORKER, START_RAY, START_STAGE
from vitalfew.flows.pipelines.quote.questions import (
    FIRST,
    Assumption,
    QuestionSample,
    Speed,
    Told,
    Trial,
    answer_length,
    speeds,
    try_questions,
    unfinished,
)
from vitalfew.storage import journals
from vitalfew.storage.costs import Cost, Quote, charge, save_quotes
from vitalfew.storage.journals import JournalEntry
from vitalfew.storage.manifests import Manifest
from vitalfew.tasks.generate import Due, Generate
from vitalfew.tasks.rate import Critique
from vitalfew.tasks.stage import Stage


@dataclass(frozen=True)
class Prompts:
    """The prompts of a method: means of a question. `new`: those that nobody has asked yet, `characters`: of these;
    `computed`: tokens that it takes to know which prompts there are; `growth`: characters of all prompts, as a multiple
    of those that were tried."""

    all: float
    new: float
    characters: float
    computed: float
    growth: float


@dataclass(frozen=True)
class Asked:
    """Estimated prompts and answers of a generator."""

    prompts: float
    read: float
    written: float
    computed: float

    @property
    def tokens(self) -> float:
        return self.read + self.written + self.computed


class Estimates:
    """Estimates of the stages of an evaluation. `bases`: what that rests on besides the trial, in words."""

    def __init__(
        self, plan: EvaluationPlan, trial: Trial, speeds: dict[tuple[str, str | None], Speed], workers: int
    ) -> None:
        self.plan, self.trial, self.speeds, self.workers = plan, trial, speeds, workers
        self.parameters: Evaluate = plan.parameters
        self.bases: dict[str, None] = {}
        self._prompts: dict[str, Prompts] = {}
        self._asked: set[int] = set()

    def left(self, stage: Stage) -> float:
        """The questions whose shard of a stage is not done."""
        asked = self.plan.manifest(self.plan.ask)
        if asked is None:
            return len(self.trial.ids)
        rows = {record.shard: record.rows(self.plan.ask.table) for record in asked.shards}
        return sum(count for shard, count in rows.items() if not stage.artifact.record(shard))

    def prompts(self, method: str, stage: Generate) -> Prompts:
        """A prompt that an earlier method of this evaluation asks is asked once: call this in the methods' order."""
        if stage.artifact.name not in self._prompts:
            wide, tried = (self.trial.generate(sample, method) for sample in (self.trial.wide, self.trial.tried))
            due, computed = wide.due(0)
            keys = [each.key for each in due]
            known = stage.known(keys, stage.answers_in(stage.earlier())).keys() | self._asked
            new = {each.key: len(each.prompt.text) for each in due if each.key not in known}
            self._asked.update(keys)
            n = self.trial.wide.questions
            answered = _characters(tried.due(0)[0]) / self.trial.tried.questions
            growth = _characters(due) / n / answered
            means = Prompts(len(due) / n, len(new) / n, sum(new.values()) / n, computed / n, growth)
            self._prompts[stage.artifact.name] = means
        return self._prompts[stage.artifact.name]

    def asked(self, method: str, stage: Generate) -> Asked:
        """Quote the generator, without answers that a killed run has paid for."""
        prompts, sample = self.prompts(method, stage), self._tried(method, stage)
        tried = self.trial.generate(self.trial.tried, method)
        rows = sample.read(tried.store, stage.table).to_pylist()
        per_character = sum(row["prompt_tokens"] for row in rows) / _characters(tried.due(0)[0])
        length = answer_length(stage, sample, tried.store)
        mean = length[0] if length else sum(row["completion_tokens"] for row in rows) / len(rows)
        if sample.artifact not in self.trial.assumed:
            how = (
                "as in earlier answers" if length else "as in the trial, because the store has too few earlier answers"
            )
            self.bases[f"{method}: {mean:,.1f} tokens out per prompt, {how}"] = None
        left = self.left(stage)
        due = left * prompts.new
        asked = max(0.0, due - sum(1 for _ in _paid(stage)))
        share = asked / due if due else 0.0
        read = share * left * prompts.characters * per_character
        return Asked(asked, read, asked * mean, share * left * prompts.computed)

    def of_generator(self, method: str, stage: Generate, asked: Asked) -> Quote:
        left = self.left(stage)
        return self._quote(method, stage, left * self.prompts(method, stage).all, asked.tokens)

    def of_other(self, method: str, stage: Stage) -> Quote:
        """Its work follows the questions, or the prompts' characters where it comes after those are answered."""
        sample, manifest = self._sample(method, stage)
        generate = self.plan.by_method[method].get(Generate.name)
        growth = 1.0
        if sample is self.trial.tried and isinstance(generate, Generate):
            growth = self.prompts(method, generate).growth
        scale = self.left(stage) / sample.questions
        tokens = scale * growth * _cost(manifest).tokens - sum(entry.tokens for entry in _paid(stage))
        return self._quote(method, stage, scale * manifest.rows[stage.table], max(0.0, tokens))

    def as_it_was(self, stage: Stage, manifest: Manifest) -> Quote:
        """Quote a stage that the trial has done as the run will do it."""
        cost = _cost(manifest)
        return self._written(stage, manifest, manifest.rows[stage.table], cost.tokens, 1.0, cost)

    def _quote(self, method: str, stage: Stage, rows: float, tokens: float) -> Quote:
        sample, manifest = self._sample(method, stage)
        first = self.trial.manifest(self.trial.first, method, stage.name)
        left = self.left(stage)
        shards = max(1, math.ceil(left / self.parameters.questions.batch))
        side = min(self.workers, shards, stage.workers or shards)
        load, work = _seconds(_cost(manifest), _cost(first) if first else None, sample.questions, tokens, left)
        if speed := self.speeds.get((stage.name, stage.model_name)) if tokens else None:
            work = Speed(speed.wall * tokens, speed.cpu * tokens)
        elif manifest.artifact in self.trial.assumed:
            self.bases[f"the time of {stage.model_name} is unknown and not included"] = None
        took = Cost(wall_seconds=load.wall + work.wall / side, cpu_seconds=load.cpu * side + work.cpu)
        return self._written(stage, manifest, rows, tokens, left / sample.questions, took)

    def _written(self, stage: Stage, tried: Manifest, rows: float, tokens: float, scale: float, took: Cost) -> Quote:
        """`scale`: all questions, as a multiple of those of the sample."""
        gpu = took.wall_seconds * stage.num_gpus
        ray = self.parameters.runner == "ray"
        return Quote(
            fingerprint=stage.artifact.fingerprint,
            stage=stage.name,
            runner=self.parameters.runner,
            workers=self.workers,
            rows=round(rows),
            tokens=round(tokens),
            wall_seconds=took.wall_seconds,
            cpu_seconds=took.cpu_seconds,
            gpu_seconds=gpu,
            peak_memory_bytes=_cost(tried).peak_memory_bytes + (RAY_WORKER if ray else 0),
            disk_bytes=round(scale * sum(file.bytes for file in tried.files())),
            usd=charge(took.cpu_seconds, gpu, tokens, stage.model_name),
        )

    def _sample(self, method: str, stage: Stage) -> tuple[QuestionSample, Manifest]:
        """The larger of the samples that a stage was tried on."""
        wide = self.trial.manifest(self.trial.wide, method, stage.name)
        return (self.trial.wide, wide) if wide else (self.trial.tried, self._tried(method, stage))

    def _tried(self, method: str, stage: Stage) -> Manifest:
        manifest = self.trial.manifest(self.trial.tried, method, stage.name)
        assert manifest
        return manifest


def _characters(due: list[Due]) -> int:
    return sum(len(each.prompt.text) for each in due)


def _paid(stage: Stage) -> Iterator[JournalEntry]:
    """The answers in the journals of shards that are not done: what a run that was killed had paid for."""
    for path in journals.paths(stage.artifact):
        if path.stem.isdigit() and not stage.artifact.record(int(path.stem)):
            yield from journals.entries(path)


def _cost(manifest: Manifest) -> Cost:
    records = [*manifest.shards, *([manifest.preparation] if manifest.preparation else [])]
    return Cost(
        tokens=sum(record.cost.tokens for record in records),
        wall_seconds=sum(record.cost.wall_seconds for record in records),
        cpu_seconds=sum(record.cost.cpu_seconds for record in records),
        peak_memory_bytes=max(record.cost.peak_memory_bytes for record in records),
    )


def _seconds(sample: Cost, first: Cost | None, questions: int, tokens: float, left: float) -> tuple[Speed, Speed]:
    """Seconds to load the model, and of the work. `first`: of the sample that includes the loading."""
    amount, due = (sample.tokens, tokens) if sample.tokens else (questions, left)
    wall, cpu = sample.wall_seconds / amount, sample.cpu_seconds / amount
    load = Speed(0.0, 0.0)
    if first:
        small = first.tokens if sample.tokens else FIRST
        load = Speed(max(0.0, first.wall_seconds - wall * small), max(0.0, first.cpu_seconds - cpu * small))
    return load, Speed(wall * due, cpu * due)


@dataclass(frozen=True)
class MethodQuote:
    """The cost of a method in addition to that of the methods before it. `there`: it is finished; tokens in and out are
    the generator's, `critic_tokens` the critic's, `other_tokens` those of all other models."""

    method: str
    there: bool
    prompts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    critic_tokens: int = 0
    other_tokens: int = 0
    wall_seconds: float = 0.0
    usd: float = 0.0

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out + self.critic_tokens + self.other_tokens


@dataclass(frozen=True)
class QuotedPart:
    """One evaluation of a run: its questions, and its methods in their order. `bases`: what the figures rest on besides
    the trial, in words; `stages`: kinds of stages that are not finished."""

    name: str
    questions: int
    methods: list[MethodQuote]
    bases: Sequence[str] = ()
    stages: int = 0

    @property
    def tokens(self) -> int:
        return sum(method.tokens for method in self.methods)


@dataclass(frozen=True)
class QuotedEvaluation:
    """The quote of a run. `is_open`: which settings will be chosen is not known yet, and the dearest are quoted."""

    parts: list[QuotedPart]
    workers: int
    start_seconds: float
    is_open: bool

    @property
    def methods(self) -> list[MethodQuote]:
        return [method for part in self.parts for method in part.methods]

    @property
    def bases(self) -> list[str]:
        return [*dict.fromkeys(basis for part in self.parts for basis in part.bases)]

    @property
    def wall_seconds(self) -> float:
        return self.start_seconds + sum(method.wall_seconds for method in self.methods)


def quote_evaluation(plan: EvaluationPlan, told: Told = lambda done, stages: None) -> QuotedEvaluation:
    """Quote an evaluation, and store the quotes of its stages in its store. `told`: called as the trial goes on.

    Raises InputError, and the errors of the stages, as the run itself would."""
    on_ray = plan.parameters.runner == "ray"
    workers = (plan.parameters.workers or psutil.cpu_count() or 1) if on_ray else 1
    alternatives = plan.alternatives()
    parts = [
        max((_part(each, workers, told) for each in plans), key=lambda part: part.tokens) for plans in alternatives
    ]
    stages = sum(part.stages for part in parts)
    start = START_RAY + START_STAGE * stages if on_ray and stages else 0.0
    return QuotedEvaluation(parts, workers, start, any(len(plans) > 1 for plans in alternatives))


def _part(plan: EvaluationPlan, workers: int, told: Told) -> QuotedPart:
    name = plan.parameters.name
    missing = plan.missing()
    if not missing:
        asked = plan.manifest(plan.ask)
        assert asked
        return QuotedPart(name, asked.rows[plan.ask.table], [MethodQuote(each, there=True) for each in plan.by_method])
    assumption = Assumption(plan.store)
    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:
        trial = try_questions(plan, Path(folder), assumption, told)
        estimates = Estimates(plan, trial, speeds(plan.store), workers)
        methods = [*_methods(plan, estimates)]
    bases = [*assumption.said.values(), *estimates.bases]
    return QuotedPart(name, len(trial.ids), methods, bases, len({stage.name for stage in missing}))


def _methods(plan: EvaluationPlan, estimates: Estimates) -> Iterator[MethodQuote]:
    """Every method's own stages, those that it shares with an earlier one apart. Saves their quotes."""
    due, counted = unfinished(plan), set[str]()
    for method, stages in plan.by_method.items():
        row, quotes = MethodQuote(method, there=method not in due), []
        for stage in stages.values():
            if stage.artifact.name not in counted and not plan.manifest(stage):
                row, quote = _with(row, estimates, stage)
                quotes.append(quote)
            counted.add(stage.artifact.name)
        save_quotes(plan.store, quotes)
        yield row


def _with(row: MethodQuote, estimates: Estimates, stage: Stage) -> tuple[MethodQuote, Quote]:
    """A method's figures with those of one more stage, and that stage's quote."""
    if before := estimates.trial.before.get(stage.name):
        quote = estimates.as_it_was(stage, before)
    elif isinstance(stage, Generate):
        asked = estimates.asked(row.method, stage)
        quote = estimates.of_generator(row.method, stage, asked)
        row = replace(row, prompts=round(asked.prompts), tokens_in=round(asked.read), tokens_out=round(asked.written))
        row = replace(row, other_tokens=row.other_tokens + round(asked.computed))
    else:
        quote = estimates.of_other(row.method, stage)
        kind = "critic_tokens" if isinstance(stage, Critique) else "other_tokens"
        row = replace(row, **{kind: getattr(row, kind) + quote.tokens})
    wall, usd = row.wall_seconds + quote.wall_seconds, row.usd + quote.usd
    return replace(row, wall_seconds=wall, usd=usd), quote
