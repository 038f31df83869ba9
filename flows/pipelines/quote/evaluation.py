"""The quote of an evaluation before the run: what every method will ask, read and write, how long it takes, what it
costs.

All questions are chosen as the run will choose them, and some of them are tried in a temporary folder (sample.py). What
the store has of a stage is taken from it. Finished work costs nothing; nor does a prompt that was answered before, or
that an earlier method asks. No request is sent to a server: its answers are assumed.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from math import ceil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.compute as pc

from vitalfew.configs.evaluation import Questions
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.evaluate import EvaluationPlan, Stages, evaluation_stages
from vitalfew.flows.pipelines.paying import of_requests
from vitalfew.flows.pipelines.quote.sample import (
    Announce,
    Sample,
    estimate,
    measured,
    start_seconds,
    take_over,
    timed,
    tried,
    worker_count,
)
from vitalfew.flows.pipelines.run import in_order
from vitalfew.storage import files, journals
from vitalfew.storage.artifacts import Artifact, Manifest, fingerprint, whole_bases
from vitalfew.storage.costs import Quote, save_quotes
from vitalfew.storage.journals import JournalEntry
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.generate import Due, Generate
from vitalfew.tasks.generators import prompts
from vitalfew.tasks.generators.base import Generator
from vitalfew.tasks.judge import Judge
from vitalfew.tasks.load import Load
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.remote import Remote, assuming
from vitalfew.tasks.rate import Critique
from vitalfew.tasks.score import Score
from vitalfew.tasks.stage import Stage

SECONDS, MOST = 30.0, 32
"""How long the samples of a run may take, and the most questions in one."""


@dataclass(frozen=True)
class MethodQuote:
    """The cost that a method adds to that of the methods before it. `there`: it is finished; tokens in and out are
    the generator's, `critic_tokens` the critic's, `other_tokens` those of all other models; `requests_usd`: the part of
    `usd` that is for requests to servers."""

    method: str
    there: bool
    prompts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    critic_tokens: int = 0
    other_tokens: int = 0
    wall_seconds: float = 0.0
    usd: float = 0.0
    requests_usd: float = 0.0

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out + self.critic_tokens + self.other_tokens


@dataclass(frozen=True)
class QuotedPart:
    """One evaluation of a run: its questions, and its methods in their order. `bases`: what the figures rest on besides
    the sample, in words; `stages`: kinds of stages that are not finished."""

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
    """The quote of a run. `is_open`: settings are not chosen yet, and those that take the most tokens are quoted."""

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
    def requests_usd(self) -> float:
        """The part of the USD that is for requests to servers."""
        return sum(method.requests_usd for method in self.methods)

    @property
    def wall_seconds(self) -> float:
        return self.start_seconds + sum(method.wall_seconds for method in self.methods)


def quote_evaluation(plan: EvaluationPlan, announce: Announce = lambda text: None) -> QuotedEvaluation:
    """Quote an evaluation, and store the quotes of its stages in its store. `announce`: called with what is done now.

    Raises InputError, and the errors of the stages, as the run itself would."""
    alternatives = plan.alternatives()
    due = sum(any(each.missing() for each in plans) for plans in alternatives)
    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:  # alternatives share most of their stages
        of_part = partial(_part, folder=Path(folder), seconds=SECONDS / max(1, due), announce=announce)
        parts = [max(map(of_part, plans), key=lambda part: part.tokens) for plans in alternatives]
    start = start_seconds(plan.parameters, sum(part.stages for part in parts))
    return QuotedEvaluation(parts, worker_count(plan.parameters), start, any(len(plans) > 1 for plans in alternatives))


def _part(plan: EvaluationPlan, folder: Path, seconds: float, announce: Announce) -> QuotedPart:
    name = plan.parameters.name
    missing = plan.missing()
    if not missing:
        asked = plan.manifest(plan.ask)
        assert asked
        return QuotedPart(name, asked.rows[plan.ask.table], [MethodQuote(each, there=True) for each in plan.by_method])
    trial = _Trial(plan, folder, announce)
    trial.run(seconds)
    methods = [*trial.methods()]
    bases = [*trial.assumption.said.values(), *trial.bases]
    return QuotedPart(name, len(trial.ids), methods, bases, len({stage.name for stage in missing}))


@dataclass(frozen=True)
class _Asked:
    """The prompts that a generator is asked, and the tokens that it reads and writes. `fresh`: the tokens that it
    computes, as a share of these: it may remember others of an earlier prompt. `rows`: with known answers."""

    rows: float
    prompts: float
    read: float
    written: float
    fresh: float


@dataclass
class _Trial:
    """The stages of an evaluation on samples of its questions. `samples`: with the numbers of their questions, no
    question in two; `measured`: by the artifact of the plan; `before`: of the stages that chose the questions; `bases`:
    what the estimate rests on, in words."""

    plan: EvaluationPlan
    folder: Path
    announce: Announce
    samples: list[tuple[int, Stages]] = field(default_factory=list)
    measured: dict[str, Sample] = field(default_factory=dict)
    before: dict[str, Sample] = field(default_factory=dict)
    bases: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the questions. Raises InputError where there are none."""
        self.assumption = Assumption(self.plan.store)
        self.assumed, self.keys = set[str](), set[int]()
        self.whole, ask = self._stages(self.plan.parameters.questions), self.plan.ask
        if not self.plan.manifest(ask):
            stages = next(iter(self.whole.values()))
            for name in ("load", "ask"):
                if name in stages and stages[name].store != self.plan.store.absolute():
                    self.before[name] = measured(stages[name], 1)
            ask = stages["ask"]
        self.plan.check(ask, ask.artifact.completed())
        assert isinstance(ask, Ask)
        self.ids = ask.ids()
        self.due = [
            method
            for method, stages in self.plan.by_method.items()
            if not all(map(self.plan.manifest, stages.values()))
        ]

    def _stages(self, questions: Questions) -> Stages:
        """The stages of the plan in the temporary folder, of these questions."""
        parameters = self.plan.parameters.model_copy(update={"store": self.folder, "questions": questions})
        return evaluation_stages(parameters, self.plan.indexes, self.plan.store)

    def run(self, seconds: float) -> None:
        drawn = self.ids[np.random.default_rng(abs(self.plan.parameters.questions.seed)).permutation(len(self.ids))]

        def run(count: int) -> dict[str, Sample]:
            start = sum(size for size, _ in self.samples)
            if start < len(drawn):  # else there is but one
                self.measured = self._try(drawn[start : start + count])
            return self.measured

        with assuming(self.assumption):
            self.measured = tried(run, 1, min(MOST, len(drawn) - 2), seconds)

    def _try(self, ids: np.ndarray) -> dict[str, Sample]:
        """Run the missing stages on some questions; of what the store has, their rows are taken."""
        condition = f"question_id IN ({', '.join(map(str, ids.tolist()))})"
        settings = Questions(dataset=self.plan.parameters.questions.dataset, where=condition, batch=len(ids))
        stages, found = self._sampled(self._stages(settings)), dict[str, Sample]()
        planned = {
            stage.artifact.name: self.plan.by_method[method][name]
            for method, own in stages.items()
            for name, stage in own.items()
        }
        self.samples.append((len(ids), stages))
        asked = next(iter(stages.values()))[Ask.name].artifact
        for stage in chain.from_iterable(in_order(each for own in stages.values() for each in own.values())):
            whole = planned[stage.artifact.name]
            if self.plan.manifest(whole) and not isinstance(stage, Ask | Load):
                if not stage.artifact.manifest():
                    take_over(whole.artifact, stage, self._holding(asked))
                continue
            self.announce(f"{stage.name}: {len(ids):,} question{'s' * (len(ids) > 1)}")
            before = self.assumption.asked
            found[whole.artifact.name] = measured(stage, len(ids))
            if self.assumption.asked > before:
                self.assumed.add(whole.artifact.name)
        return found

    def _sampled(self, stages: Stages) -> Stages:
        """The stages of the methods that are due, and those of finished ones whose answers these are compared with."""
        read = {each.name for method in self.due for stage in stages[method].values() for each in stage.inputs.values()}
        sampled = {
            method: {name: stage for name, stage in own.items() if name not in (Judge.name, Score.name)}
            for method, own in stages.items()
            if method not in self.due and Generate.name in own and own[Generate.name].artifact.name in read
        } | {method: stages[method] for method in self.due}
        for judge in (own.get(Judge.name) for own in sampled.values()):
            if isinstance(judge, Judge):
                judge.trial_of = self.plan.store.absolute()  # verdicts that are known are not asked for
        return sampled

    def _holding(self, sample: Artifact) -> list[int]:
        """The shards of the store that have the questions of a sample."""
        ids, asked = sample.read(0, columns=["question_id"])["question_id"], self.plan.ask.artifact
        return [
            record.shard
            for record in asked.completed().shards
            if pc.any(pc.is_in(asked.read(record.shard, columns=["question_id"])["question_id"], ids)).as_py()
        ]

    def methods(self) -> Iterator[MethodQuote]:
        """Quote every method, without the stages that it shares with an earlier one. Saves the quotes."""
        counted = set[str]()
        for method, stages in self.plan.by_method.items():
            row, quotes = MethodQuote(method, there=method not in self.due), []
            for stage in stages.values():
                if stage.artifact.name not in counted and not self.plan.manifest(stage):
                    row, quote = self._with(row, stage)
                    quotes.append(quote)
                counted.add(stage.artifact.name)
            save_quotes(self.plan.store, quotes)
            yield row

    def _with(self, row: MethodQuote, stage: Stage) -> tuple[MethodQuote, Quote]:
        """Add one more stage to the figures of a method. Returns that stage's quote too."""
        asked = self._asked(row.method, stage) if isinstance(stage, Generate) else None
        quote = self._quote(stage, asked)
        other, critic = row.other_tokens, row.critic_tokens
        if asked:
            row = replace(
                row, prompts=round(asked.prompts), tokens_in=round(asked.read), tokens_out=round(asked.written)
            )
            other += max(0, quote.tokens - row.tokens_in - row.tokens_out)
        elif isinstance(stage, Critique):
            critic += quote.tokens
        elif stage.name not in self.before:
            other += quote.tokens
        row = replace(row, critic_tokens=critic, other_tokens=other, usd=row.usd + quote.usd)
        wall, requests = row.wall_seconds + quote.wall_seconds, row.requests_usd + of_requests(stage, quote)
        return replace(row, wall_seconds=wall, requests_usd=requests), quote

    def _quote(self, stage: Stage, asked: _Asked | None) -> Quote:
        parameters = self.plan.parameters
        if before := self.before.get(stage.name):
            return estimate(stage, parameters, before, before.units, before.shards)
        sample, left = self.measured[stage.artifact.name], self._left(stage)
        shards = max(1, ceil(left / parameters.questions.batch))
        if asked:
            tokens = asked.fresh * (asked.read + asked.written)
        else:
            paid = sum(entry.tokens for entry in _paid(stage))
            tokens = max(0.0, left * sample.tokens / sample.units - paid)
        quote = estimate(stage, parameters, sample, left, shards, asked.rows if asked else None, tokens)
        if stage.artifact.name not in self.assumed:
            return quote
        if quoted := timed(self.plan.store, stage, quote):
            return quoted
        self.bases[f"the time of {stage.model_name} is unknown and not included"] = None
        return quote

    def _left(self, stage: Stage) -> float:
        """The questions whose shard of a stage is not done."""
        asked = self.plan.manifest(self.plan.ask)
        if asked is None:
            return len(self.ids)
        rows = {record.shard: record.rows(self.plan.ask.table) for record in asked.shards}
        return sum(count for shard, count in rows.items() if not stage.artifact.record(shard))

    def _asked(self, method: str, stage: Generate) -> _Asked:
        """The prompts of the generator, without answers that a killed run has paid for. The prompts are counted one by
        one where all their contexts are known, else those of the samples; one that an earlier method of this evaluation
        asks is asked once: call this in the methods' order."""
        samples = [each for _, own in self.samples if isinstance(each := own[method][Generate.name], Generate)]
        answered = [
            row for each in samples for row in each.artifact.completed().read(each.store, each.table).to_pylist()
        ]
        of_samples = [due for each in samples for due in each.due(0)[0]]
        counted = next((each for each in (stage, self.whole[method][Generate.name]) if _countable(each)), None)
        if isinstance(counted, Generate):
            due, scale = [due for shard in counted.pending() for due in counted.due(shard)[0]], 1.0
        else:
            due, scale = of_samples, self._left(stage) / sum(size for size, _ in self.samples)
        earlier = stage.files_in(stage.earlier(), stage.table)
        known = stage.known([each.key for each in due], earlier).keys() | self.keys
        new = {each.key: len(each.prompt.text) for each in due if each.key not in known}
        self.keys.update(each.key for each in due)
        asked = max(0.0, scale * len(new) - sum(1 for _ in _paid(stage)))
        per_character = sum(row["prompt_tokens"] for row in answered) / max(1, _characters(of_samples))
        read = asked * sum(new.values()) / max(1, len(new)) * per_character
        written = sum(row["completion_tokens"] for row in answered) / len(answered)
        if stage.artifact.name not in self.assumed:
            self.bases[f"{method}: {written:,.1f} tokens out per prompt, as in the sample"] = None
        fresh = _fresh(samples[-1], self.measured[stage.artifact.name])
        return _Asked(scale * len(due), asked, read, asked * written, fresh)


def _countable(stage: Stage) -> bool:
    """Return whether all prompts of a generator can be made now: all that they are made of is there, and no model
    decides."""
    decides = getattr(type(getattr(stage, "method", None)), "without_contexts", None)
    return decides is Generator.without_contexts and all(read.manifest() for read in stage.inputs.values())


def _fresh(tried: Generate, sample: Sample) -> float:
    """The tokens that a sample computed, as a share of those that its new answers read or wrote."""
    rows: list[dict[str, Any]] = tried.artifact.completed().read(tried.store, tried.table).to_pylist()
    counted = sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows if not row["reused"])
    return sample.tokens / counted if counted else 1.0


def _characters(due: Sequence[Due]) -> int:
    return sum(len(each.prompt.text) for each in due)


def _paid(stage: Stage) -> Iterator[JournalEntry]:
    """The answers in the journals of shards that are not done, for which a run that was killed has paid."""
    for path in journals.paths(stage.artifact):
        if path.stem.isdigit() and not stage.artifact.record(int(path.stem)):
            yield from journals.entries(path)


ENOUGH, PROMPTS = 8, 64
"""Earlier answers that make a mean length, and prompts of an earlier run that are rendered again, to count tokens."""
CHARACTERS = 4.0
"""Characters per token of English, assumed for a model that was never asked."""


class Assumption:
    """Assumes the answers of a server's model: as long as its earlier answers in a store were on average, else as long
    as they may be. `said`: by model, the basis in words; `asked`: the number of requests that were not sent."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.said: dict[str, str] = {}
        self.asked = 0
        self._known: dict[str, tuple[float, float]] = {}

    def __call__(self, engine: Remote, prompt: str) -> Completion:
        self.asked += 1
        key = fingerprint(engine=engine.identity())
        if key not in self._known:
            self._known[key] = self._of(engine, key)
        characters, answer = self._known[key]
        written = max(1, round(min(engine.options.max_tokens, answer)))
        return Completion(" ".join(["word"] * written), round(len(prompt) / characters), written, 0.0)

    def _of(self, engine: Remote, key: str) -> tuple[float, float]:
        """Characters per token of its prompts, and tokens of an answer."""
        manifests = [
            manifest
            for folder in files.folders(self.store / Generate.table)
            if (manifest := Artifact(self.store, Generate.table, folder.name).recorded_manifest())
            and fingerprint(engine=manifest.method["generator"]) == key
        ]
        lengths = _answers(self.store, manifests)
        most, characters = engine.options.max_tokens, CHARACTERS
        read, written = (
            f"{CHARACTERS:g} characters per token (assumed)",
            f"max_tokens={most:,} for every answer (the maximum cost)",
        )
        if lengths[1] >= ENOUGH:
            asked = [pair for manifest in manifests for pair in islice(_prompts(self.store, manifest), PROMPTS)]
            if tokens := sum(tokens for _, tokens in asked):
                characters = sum(size for size, _ in asked) / tokens
                read = f"{characters:.2f} characters per token (as in earlier prompts)"
            written = f"{lengths[0]:,.1f} tokens per answer (mean of {lengths[1]:,} earlier ones)"
        name = engine.options.model or type(engine).__name__
        self.said[name] = f"nothing was sent to {name}; estimate: {read}, {written}"
        return characters, lengths[0] if lengths[1] >= ENOUGH else most


def _answers(store: Path, manifests: list[Manifest]) -> tuple[float, int]:
    """The mean tokens of answers, and their number; damaged files do not count."""
    paths = whole_bases(store, [file for each in manifests for file in each.files() if file.table == Generate.table])
    if not (local := [str(files.local(path)) for path in paths]):
        return 0.0, 0
    with duckdb.connect() as connection:
        rows = connection.from_parquet(local).filter("error = ''")
        mean, count = rows.aggregate("avg(completion_tokens), count(*)").fetchall()[0]
    return mean or 0.0, count


def _prompts(store: Path, manifest: Manifest) -> Iterator[tuple[int, int]]:
    """Yield characters and tokens of answered prompts, rendered again; nothing if their inputs are gone or damaged, or
    if this version does not render the template."""
    inputs = {role: Artifact(store, *name.split("/")) for role, name in manifest.inputs.items()}
    shard, template = manifest.shards[0].shard, manifest.method["prompt"]
    bare = manifest.method.get("prompt_without_contexts", template)
    with suppress(FileNotFoundError, files.Damaged, ConfigError):
        asked = inputs["asked"].read(shard, columns=["question_id", "text"]).to_pylist()
        rows = inputs["evidence"].read(shard).to_pylist() if "evidence" in inputs else []
        questions = {row["question_id"]: row["text"] for row in asked}
        contexts = {(row["question_id"], row["rank"]): row["text"] for row in rows}
        for row in Artifact(store, *manifest.artifact.split("/")).read(shard).to_pylist():
            if not row["error"]:
                given = tuple(contexts[row["question_id"], rank] for rank in row["contexts"])
                text = prompts.render(template if given else bare, questions[row["question_id"]], given)
                yield len(text), row["prompt_tokens"]
