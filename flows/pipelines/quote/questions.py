"""The trial of an evaluation on some of its questions, in a separate folder: the store is only read.

All questions are chosen as the run will choose them, and some of them are drawn. One goes through all stages, which
makes every model load; then two more, six more and so on, as long as the trial may take (`Allowance`). Further ones
get their contexts, which shows the prompts to come, in the methods for which that takes little time. What the store has
of a stage is taken from it. Nothing is sent to servers that may cost money (`assuming`); their answers are assumed from
earlier ones.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.configs.evaluation import Questions
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.evaluate import EvaluationPlan, Stages, evaluation_stages
from vitalfew.flows.pipelines.quote.forecast import Speed
from vitalfew.flows.pipelines.quote.trial import Allowance, Announce, StageSample, take_over, try_stage
from vitalfew.flows.pipelines.run import in_order
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, Manifest, fingerprint, whole_bases
from vitalfew.storage.manifests import File
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.generators import prompts
from vitalfew.tasks.judge import Judge
from vitalfew.tasks.load import Load
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.remote import Remote, assuming
from vitalfew.tasks.score import Score
from vitalfew.tasks.stage import Stage

ENOUGH = 8
"""Earlier answers that make a better mean length than a trial."""
PROMPTS = 64
"""Prompts of an earlier run that are rendered again, to count tokens per character."""
CHARACTERS = 4.0
"""Characters per token of English, assumed for a model that was never asked."""


@dataclass(frozen=True)
class Known:
    """Averages of earlier answers: tokens per character of a prompt (None: unknown), tokens per answer, and their
    number."""

    per_character: float | None
    answer: float
    answers: int


def speeds(store: Path) -> dict[tuple[str, str | None], Speed]:
    """By stage and model, from the ledgers of all artifacts; stages without tokens are left out."""
    ledgers = []
    for path in files.find(store, "costs/*/*.parquet"):  # not by DuckDB, which does not see a flipped bit
        with suppress(FileNotFoundError, files.Damaged):
            ledgers.append(files.read_table(path))
    if not ledgers:
        return {}
    with duckdb.connect() as connection:
        connection.register("paid", pa.concat_tables(ledgers, promote_options="default"))
        rows = connection.sql(
            "SELECT stage, model, sum(wall_seconds) / sum(tokens), sum(cpu_seconds) / sum(tokens) FROM paid "
            "WHERE shard >= 0 AND tokens > 0 GROUP BY ALL"
        ).fetchall()
    return {(stage, model): Speed(wall, cpu) for stage, model, wall, cpu in rows}


def answer_length(stage: Generate, tried: Generate) -> tuple[float, int] | None:
    """Return the mean tokens of the answers that this generator gave, and their number; None if they are too few.

    If there are enough answers to prompts with the same template and the same kind of contexts, only those count.
    `tried`: the stage in the trial.
    """
    earlier, like = stage.earlier(), tried.artifact.completed()
    alike = [manifest for manifest in earlier if _kind(stage.store, manifest) == _kind(tried.store, like)]
    return _length(stage.store, stage.answers_in(alike)) or _length(stage.store, stage.answers_in(earlier))


def _kind(store: Path, manifest: Manifest) -> tuple[Any, ...]:
    """Return the settings that decide the prompts of an artifact: of the prompt, its contexts and their retrieval."""
    settings: list[Any] = [manifest.method["prompt"], manifest.config["per_context"]]
    for role in ("evidence", "hits"):
        name = manifest.inputs.get(role)
        made = name and Artifact(store, *name.split("/")).recorded_manifest()
        if not made:
            break
        manifest = made
        settings.append(fingerprint(**manifest.config))
    return tuple(settings)


def _length(store: Path, answers: Sequence[File]) -> tuple[float, int] | None:
    if not (paths := [*whole_bases(store, answers)]):
        return None
    with duckdb.connect() as connection:
        rows = connection.from_parquet([str(files.local(path)) for path in paths]).filter("error = ''")
        mean, count = rows.aggregate("avg(completion_tokens), count(*)").fetchall()[0]
    return (mean, count) if count >= ENOUGH else None


class Assumption:
    """Assumes the answers of a server's model, from its earlier answers in a store, else from the longest answer that
    it may give. `said`: by model, the basis in words; `asked`: the number of requests that were not sent."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.said: dict[str, str] = {}
        self.asked = 0
        self._known: dict[str, Known | None] = {}

    def __call__(self, engine: Remote, prompt: str) -> Completion:
        self.asked += 1
        known, most = self._of(engine), engine.options.max_tokens
        read = len(prompt) * known.per_character if known and known.per_character else len(prompt) / CHARACTERS
        written = max(1, round(min(most, known.answer if known else most)))
        return Completion(" ".join(["word"] * written), round(read), written, 0.0)

    def _of(self, engine: Remote) -> Known | None:
        key = fingerprint(engine=engine.identity())
        if key not in self._known:
            known = self._known[key] = _known(self.store, key)
            name, most = engine.options.model or type(engine).__name__, engine.options.max_tokens
            read = f"{CHARACTERS:g} characters per token (assumed)"
            if known and known.per_character:
                read = f"{1 / known.per_character:.2f} characters per token (as in earlier prompts)"
            written = f"max_tokens={most:,} for every answer (the maximum cost)"
            if known:
                written = f"{known.answer:,.1f} tokens per answer (mean of {known.answers:,} earlier ones)"
            self.said[name] = f"nothing was sent to {name}; estimate: {read}, {written}"
        return self._known[key]


def _known(store: Path, engine: str) -> Known | None:
    """Average the earlier answers of an engine (its identity's fingerprint)."""
    manifests = [
        manifest
        for folder in files.folders(store / Generate.table)
        if (manifest := Artifact(store, Generate.table, folder.name).recorded_manifest())
        and fingerprint(engine=manifest.method["generator"]) == engine
    ]
    answers = [file for manifest in manifests for file in manifest.files() if file.table == Generate.table]
    length = _length(store, answers)
    if length is None:
        return None
    asked = [pair for manifest in manifests for pair in islice(_prompts(store, manifest), PROMPTS)]
    characters = sum(size for size, _ in asked)
    return Known(sum(tokens for _, tokens in asked) / characters if characters else None, *length)


def _prompts(store: Path, manifest: Manifest) -> Iterator[tuple[int, int]]:
    """Yield characters and tokens of answered prompts, rendered again; nothing if their inputs are gone or damaged, or
    if this version does not render the template."""
    inputs = {role: Artifact(store, *name.split("/")) for role, name in manifest.inputs.items()}
    shard = manifest.shards[0].shard
    try:
        asked = inputs["asked"].read(shard, columns=["question_id", "text"]).to_pylist()
        rows = inputs["evidence"].read(shard).to_pylist() if "evidence" in inputs else []
        candidates = Artifact(store, *manifest.artifact.split("/")).read(shard).to_pylist()
    except (FileNotFoundError, files.Damaged):
        return
    questions = {row["question_id"]: row["text"] for row in asked}
    contexts = {(row["question_id"], row["rank"]): row["text"] for row in rows}
    template = manifest.method["prompt"]
    bare = manifest.method.get("prompt_without_contexts", template)
    with suppress(ConfigError):
        for row in candidates:
            if not row["error"]:
                given = tuple(contexts[row["question_id"], rank] for rank in row["contexts"])
                text = prompts.render(template if given else bare, questions[row["question_id"]], given)
                yield len(text), row["prompt_tokens"]


MOST, WIDE = 48, 32
"""Questions that go through all stages, at most, and further ones that only get their contexts."""
WIDE_SECONDS = 10.0
"""How long it may take to get the contexts of those further ones."""


@dataclass(frozen=True)
class QuestionSample:
    """The stages of an evaluation on some of its questions."""

    questions: int
    stages: Stages

    def until(self, last: str | None, methods: Sequence[str] = ()) -> list[Stage]:
        """The stages of some methods, by default of all, before the one of that name, or all, in the order of
        execution."""
        kept = []
        for method in methods or self.stages:
            names = [*self.stages[method]]
            kept += [self.stages[method][name] for name in names[: names.index(last) if last in names else len(names)]]
        return [stage for step in in_order(kept) for stage in step]

    @property
    def asked(self) -> Artifact:
        """Its questions."""
        return next(iter(self.stages.values()))[Ask.name].artifact

    def generate(self, method: str) -> Generate:
        stage = self.stages[method][Generate.name]
        assert isinstance(stage, Generate)
        return stage


@dataclass
class Trial:
    """A trial and its results. `ids`: of all questions; `before`: the stages that preceded the samples, by name;
    `answered`: samples that went through all stages, the first of which loaded the models if there are several;
    `wide`: one that only got its contexts, in the methods `widened`; `done`: all stages on the samples, by artifact;
    `assumed`: the artifacts whose model was not asked. No question is in two samples."""

    ids: np.ndarray
    before: dict[str, StageSample]
    answered: list[QuestionSample] = field(default_factory=list)
    wide: QuestionSample | None = None
    widened: set[str] = field(default_factory=set)
    done: dict[str, StageSample] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)

    def with_contexts(self, method: str) -> list[QuestionSample]:
        """The samples that got the contexts of a method."""
        return [*self.answered, self.wide] if self.wide and method in self.widened else self.answered

    def measured(self, samples: Sequence[QuestionSample], method: str, stage: str) -> list[StageSample]:
        """The measurements of a stage on those samples on which it was tried."""
        names = (each.stages[method][stage].artifact.name for each in samples)
        return [self.done[name] for name in names if name in self.done]

    def is_assumed(self, method: str, stage: str) -> bool:
        """Return true if the model of a stage was not asked."""
        samples = self.with_contexts(method)
        return any(each.stages[method][stage].artifact.name in self.assumed for each in samples)


class TryQuestions:
    """Tries samples of the questions of a plan. `store`: for what is written."""

    def __init__(self, plan: EvaluationPlan, store: Path, assumption: Assumption, announce: Announce) -> None:
        self.plan, self.store, self.assumption, self.announce = plan, store, assumption, announce

    def run(self, seconds: float) -> Trial:
        """Try for so many seconds at most, without the loading of models. Raises the errors of the stages, InputError
        for an empty set of questions among them."""
        trial = Trial(*_questions(self.plan, self.store))
        ids = trial.ids
        drawn = ids[np.random.default_rng(abs(self.plan.parameters.questions.seed)).permutation(len(ids))]
        allowance, rate, start, size = Allowance(seconds, len(ids)), 0.0, 0, 1
        with assuming(self.assumption):
            while start < min(len(drawn), MOST) and (len(trial.answered) < 2 or size <= allowance.units(rate)):
                sample = _sample(self.plan, self.store, drawn[start : start + size])
                spent = self._try(trial, sample, sample.until(None))
                if trial.answered:
                    allowance.spent, rate = allowance.spent + spent, spent / sample.questions
                trial.answered.append(sample)
                start, size = start + size, 3 * size if trial.answered[1:] else 2
            if start < len(drawn):
                self._widen(trial, drawn[start : start + WIDE])
        return trial

    def _widen(self, trial: Trial, ids: np.ndarray) -> None:
        """Get the contexts of more questions, in the methods that take the least time for it first."""
        wide = trial.wide = _sample(self.plan, self.store, ids)

        def due(method: str) -> float:
            """CPU seconds, which other work does not stretch, for the stages that are not done yet, at the best rate of
            the other samples. This is rather too much: many stages take as long for thirty questions as for three."""
            stages = [stage for stage in wide.until(Generate.name, [method]) if stage.artifact.name not in trial.done]
            tried = [trial.measured(trial.answered, method, stage.name) for stage in stages]
            return wide.questions * sum(min(each.cpu_seconds / each.units for each in some) for some in tried if some)

        left = WIDE_SECONDS
        for method in sorted(wide.stages, key=due):
            if due(method) <= left:
                began = time.perf_counter()
                self._try(trial, wide, wide.until(Generate.name, [method]))
                left -= time.perf_counter() - began
                trial.widened.add(method)

    def _try(self, trial: Trial, sample: QuestionSample, stages: Sequence[Stage]) -> float:
        """Do stages on a sample, and return the seconds that they took, without the time of other processes (nothing
        waits for a server here). Of what the store has, its rows are taken."""
        planned = {
            stage.artifact.name: self.plan.by_method[method][name]
            for method, of_method in sample.stages.items()
            for name, stage in of_method.items()
        }
        for stage in stages:
            name = stage.artifact.name
            if name in trial.done:
                continue
            whole = planned[name]
            if self.plan.manifest(whole) and not isinstance(stage, Ask | Load):
                if not stage.artifact.manifest():
                    take_over(whole.artifact, stage, self._holding(sample.asked))
                continue
            self.announce(f"{stage.name}: {sample.questions:,} question{'s' * (sample.questions > 1)}")
            asked = self.assumption.asked
            trial.done[name] = try_stage(stage, sample.questions)
            if self.assumption.asked > asked:
                trial.assumed.add(name)
        done = (trial.done[stage.artifact.name] for stage in stages if stage.artifact.name in trial.done)
        return sum(min(each.seconds, each.cpu_seconds) for each in done)

    def _holding(self, sample: Artifact) -> list[int]:
        """The shards of the store that have the questions of a sample."""
        ids, asked = sample.read(0, columns=["question_id"])["question_id"], self.plan.ask.artifact
        return [
            record.shard
            for record in asked.completed().shards
            if pc.any(pc.is_in(asked.read(record.shard, columns=["question_id"])["question_id"], ids)).as_py()
        ]


def _questions(plan: EvaluationPlan, folder: Path) -> tuple[np.ndarray, dict[str, StageSample]]:
    """The ids of all questions that will be asked, and the stages that it took to choose them, if the store lacks
    them."""
    ask, done = plan.ask, dict[str, StageSample]()
    if not plan.manifest(ask):
        stages = next(iter(_stages(plan, folder, plan.parameters.questions).values()))
        for name in ("load", "ask"):
            if name in stages and stages[name].store != plan.store.absolute():
                done[name] = try_stage(stages[name], 1)
        ask = stages["ask"]
    plan.check(ask, ask.artifact.completed())
    assert isinstance(ask, Ask)
    return ask.ids(), done


def _sample(plan: EvaluationPlan, folder: Path, ids: np.ndarray) -> QuestionSample:
    condition = f"question_id IN ({', '.join(map(str, ids.tolist()))})"
    questions = Questions(dataset=plan.parameters.questions.dataset, where=condition, batch=len(ids))
    stages, due = _stages(plan, folder, questions), unfinished(plan)
    for judge in (stages[method].get(Judge.name) for method in due):
        if isinstance(judge, Judge):
            judge.trial_of = plan.store.absolute()  # verdicts that are known are not asked for
    return QuestionSample(len(ids), {**_compared_with(stages, due), **{method: stages[method] for method in due}})


def _compared_with(stages: Stages, due: Sequence[str]) -> Stages:
    """The stages of finished methods whose answers those of other methods are compared with."""
    read = {artifact.name for method in due for stage in stages[method].values() for artifact in stage.inputs.values()}
    return {
        method: {name: stage for name, stage in own.items() if name not in (Judge.name, Score.name)}
        for method, own in stages.items()
        if method not in due and Generate.name in own and own[Generate.name].artifact.name in read
    }


def unfinished(plan: EvaluationPlan) -> list[str]:
    """The methods with a stage that is not finished."""
    return [method for method, stages in plan.by_method.items() if not all(map(plan.manifest, stages.values()))]


def _stages(plan: EvaluationPlan, folder: Path, questions: Questions) -> Stages:
    parameters = plan.parameters.model_copy(update={"store": folder, "questions": questions})
    return evaluation_stages(parameters, plan.indexes, plan.store)
