"""The quote of an evaluation before the run: what every method will ask, read and write, how long it takes, what it
costs.

All questions are chosen as the run will choose them, and some of them are tried in a temporary folder (sample.py). What
the store has of a stage is taken from it. Finished work costs nothing; nor does a prompt that was answered before, or
that an earlier method asks. No request is sent to a server: its answers are assumed.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.configs.evaluation import Questions
from vitalfew.flows.pipelines.evaluate import EvaluationPlan, Stages, evaluation_stages
from vitalfew.flows.pipelines.paying import of_requests
from vitalfew.flows.pipelines.quote.sample import (
    Announce,
    QuotedStages,
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
from vitalfew.storage.artifacts import Artifact, fingerprint, whole_bases
from vitalfew.storage.costs import Quote, save_quotes
from vitalfew.storage.journals import JournalEntry
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.judge import Judge
from vitalfew.tasks.load import Load
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.remote import Remote, assuming
from vitalfew.tasks.rate import Critique
from vitalfew.tasks.stage import Stage

SECONDS, MOST = 30.0, 32
"""How long the samples of a run may take, and the most questions in one."""


@dataclass(frozen=True)
class MethodQuote:
    """The cost that a method adds to that of the methods before it. `there`: it is finished; tokens in and out are
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
    """One evaluation of a run: its questions, its methods in their order, and its stages, of which `requests_usd` are
    for requests to servers. `bases`: what the figures rest on besides the sample, in words."""

    name: str
    questions: int
    methods: list[MethodQuote]
    stages: Sequence[Quote] = ()
    requests_usd: float = 0.0
    bases: Sequence[str] = ()

    @property
    def tokens(self) -> int:
        return sum(method.tokens for method in self.methods)


@dataclass(frozen=True, kw_only=True)
class QuotedEvaluation(QuotedStages):
    """The quote of a run. `is_open`: settings are not chosen yet, and those that take the most tokens are quoted."""

    parts: list[QuotedPart]
    is_open: bool

    @property
    def methods(self) -> list[MethodQuote]:
        return [method for part in self.parts for method in part.methods]


def quote_evaluation(plan: EvaluationPlan, announce: Announce = lambda text: None) -> QuotedEvaluation:
    """Quote an evaluation, and store the quotes of its stages in its store. `announce`: called with what is done now.

    Raises InputError, and the errors of the stages, as the run itself would."""
    alternatives = plan.alternatives()
    due = sum(any(each.missing() for each in plans) for plans in alternatives)
    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:  # alternatives share most of their stages
        of_part = partial(_part, folder=Path(folder), seconds=SECONDS / max(1, due), announce=announce)
        parts = [max(map(of_part, plans), key=lambda part: part.tokens) for plans in alternatives]
    return QuotedEvaluation(
        stages=[stage for part in parts for stage in part.stages],
        workers=worker_count(plan.parameters),
        start_seconds=start_seconds(plan.parameters, sum(len({each.stage for each in part.stages}) for part in parts)),
        requests_usd=sum(part.requests_usd for part in parts),
        bases=[*dict.fromkeys(basis for part in parts for basis in part.bases)],
        parts=parts,
        is_open=any(len(plans) > 1 for plans in alternatives),
    )


def _part(plan: EvaluationPlan, folder: Path, seconds: float, announce: Announce) -> QuotedPart:
    name = plan.parameters.name
    if plan.done():
        asked = plan.manifest(plan.ask)
        assert asked
        return QuotedPart(name, asked.rows[plan.ask.table], [MethodQuote(each, there=True) for each in plan.by_method])
    trial = _Trial(plan, folder, announce)
    trial.run(seconds)
    methods = [*trial.methods()]
    save_quotes(plan.store, trial.quotes)
    bases = [*trial.assumption.said.values(), *trial.bases]
    return QuotedPart(name, len(trial.ids), methods, trial.quotes, trial.requests_usd, bases)


@dataclass
class _Trial:
    """The stages of an evaluation on samples of its questions. `samples`: with the numbers of their questions, no
    question in two; `measured`: by the artifact of the plan; `quotes`: of the stages, of which `requests_usd` are
    for requests to servers; `bases`: what the estimate rests on, in words."""

    plan: EvaluationPlan
    folder: Path
    announce: Announce
    samples: list[tuple[int, Stages]] = field(default_factory=list)
    measured: dict[str, Sample] = field(default_factory=dict)
    quotes: list[Quote] = field(default_factory=list)
    requests_usd: float = 0.0
    bases: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the questions. Raises InputError where there are none."""
        self.assumption = Assumption(self.plan.store)
        self.assumed, self.keys = set[str](), set[int]()
        ask = self.plan.ask
        if not self.plan.manifest(ask):
            stages = next(iter(self._stages(self.plan.parameters.questions).values()))
            for name in (Load.name, Ask.name):
                if name in stages and stages[name].store != self.plan.store.absolute():
                    stages[name].run("plan")
            ask = stages[Ask.name]
        self.plan.check(ask, ask.artifact.completed())
        assert isinstance(ask, Ask)
        self.ids = ask.ids()

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
        stages, found = self._stages(settings), dict[str, Sample]()
        self.samples.append((len(ids), stages))
        for stage, whole in self._due(stages):
            if isinstance(stage, Judge):
                stage.trial_of = self.plan.store.absolute()  # verdicts that are known are not asked for
            if isinstance(stage, Ask | Load):
                stage.run("plan")
            elif manifest := self.plan.manifest(whole):
                if not stage.artifact.manifest():
                    take_over(whole.artifact, stage, [record.shard for record in manifest.shards])
            else:
                self.announce(f"{stage.name}: {len(ids):,} question{'s' * (len(ids) > 1)}")
                before = self.assumption.asked
                found[whole.artifact.name] = measured(stage, len(ids))
                if self.assumption.asked > before:
                    self.assumed.add(whole.artifact.name)
        return found

    def _due(self, stages: Stages) -> list[tuple[Stage, Stage]]:
        """The missing stages and those that they read, in order, with those of the plan that they are samples of."""
        planned = {
            stage.artifact.name: self.plan.by_method[method][name]
            for method, own in stages.items()
            for name, stage in own.items()
        }
        due, read = list[tuple[Stage, Stage]](), set[str]()
        every = chain.from_iterable(in_order(stage for own in stages.values() for stage in own.values()))
        for stage in reversed([*every]):
            whole = planned[stage.artifact.name]
            if stage.artifact.name in read or not self.plan.manifest(whole):
                due.insert(0, (stage, whole))
                read |= {each.name for each in stage.inputs.values()}
        return due

    def methods(self) -> Iterator[MethodQuote]:
        """Quote every method, without the stages that it shares with an earlier one."""
        counted = set[str]()
        for method, stages in self.plan.by_method.items():
            row = MethodQuote(method, there=all(map(self.plan.manifest, stages.values())))
            for stage in stages.values():
                if stage.artifact.name in self.measured.keys() - counted:
                    row = self._with(row, stage)
                counted.add(stage.artifact.name)
            yield row

    def _with(self, row: MethodQuote, stage: Stage) -> MethodQuote:
        """Quote one more stage, and add it to the figures of a method."""
        if isinstance(stage, Generate):
            row, tokens = self._asked(row, stage)
        else:
            sample = self.measured[stage.artifact.name]
            tokens = self._left(stage) * sample.tokens / sample.units - sum(entry.tokens for entry in _paid(stage))
        self.quotes.append(quote := self._quote(stage, max(0.0, tokens)))
        self.requests_usd += of_requests(stage, quote)
        kind = "critic_tokens" if isinstance(stage, Critique) else "other_tokens"
        others = quote.tokens
        if isinstance(stage, Generate):
            others = max(0, others - row.tokens_in - row.tokens_out)
        return replace(
            row,
            usd=row.usd + quote.usd,
            wall_seconds=row.wall_seconds + quote.wall_seconds,
            **{kind: getattr(row, kind) + others},
        )

    def _quote(self, stage: Stage, tokens: float) -> Quote:
        parameters, name, left = self.plan.parameters, stage.artifact.name, self._left(stage)
        shards = max(1, ceil(left / parameters.questions.batch))
        quote = estimate(stage, parameters, self.measured[name], left, shards, tokens=tokens)
        if name not in self.assumed:
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

    def _asked(self, row: MethodQuote, stage: Generate) -> tuple[MethodQuote, float]:
        """Add the prompts of the generator to a method's figures. Returns the tokens that it computes for these, too.

        A prompt that was answered before, or that an earlier method asks, is not asked: call this in their order."""
        samples = [each for _, own in self.samples if isinstance(each := own[row.method][Generate.name], Generate)]
        keys = {due.key for each in samples for due in each.due(0)[0]}
        new = keys - stage.known([*keys], stage.files_in(stage.earlier(), stage.table)).keys() - self.keys
        self.keys |= keys
        questions = sum(size for size, _ in self.samples)
        asked = max(0.0, self._left(stage) / questions * len(new) - sum(1 for _ in _paid(stage)))
        rows = [each.artifact.completed().read(each.store, each.table) for each in samples]
        read, written = (
            pc.mean(pa.concat_tables(rows)[name]).as_py() for name in ("prompt_tokens", "completion_tokens")
        )
        if stage.artifact.name not in self.assumed:
            self.bases[f"{row.method}: {written:,.1f} tokens out per prompt, as in the sample"] = None
        computed = pc.sum(pc.invert(rows[-1]["reused"])).as_py()
        tokens = asked * self.measured[stage.artifact.name].tokens / max(1, computed)
        row = replace(row, prompts=round(asked), tokens_in=round(asked * read), tokens_out=round(asked * written))
        return row, tokens


def _paid(stage: Stage) -> Iterator[JournalEntry]:
    """The answers in the journals of shards that are not done, for which a run that was killed has paid."""
    for path in journals.paths(stage.artifact):
        if path.stem.isdigit() and not stage.artifact.record(int(path.stem)):
            yield from journals.entries(path)


ENOUGH = 8
"""Earlier answers that make a mean length."""
BYTES = 4
"""Bytes of UTF-8 per token, assumed for a server's model."""


class Assumption:
    """Assumes the answers of a server's model: as long as its earlier answers in a store were on average, else as long
    as they may be. `said`: by model, the basis in words; `asked`: the number of requests that were not sent."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.said: dict[str, str] = {}
        self.asked = 0
        self._known: dict[str, float] = {}

    def __call__(self, engine: Remote, prompt: str) -> Completion:
        self.asked += 1
        key = fingerprint(engine=engine.identity())
        if key not in self._known:
            self._known[key] = self._answer(engine, key)
        written = max(1, round(min(engine.options.max_tokens, self._known[key])))
        return Completion(" ".join(["word"] * written), round(len(prompt.encode()) / BYTES), written, 0.0)

    def _answer(self, engine: Remote, key: str) -> float:
        """The tokens of an answer."""
        answer, count = _answers(self.store, key)
        basis = f"{answer:,.1f} tokens per answer (mean of {count:,} earlier ones)"
        if count < ENOUGH:
            answer = engine.options.max_tokens
            basis = f"max_tokens={answer:,} for every answer (the maximum cost)"
        name = engine.options.model or type(engine).__name__
        self.said[name] = f"nothing was sent to {name}; estimate: a token for {BYTES} bytes of a prompt, {basis}"
        return answer


def _answers(store: Path, engine: str) -> tuple[float, int]:
    """The mean tokens of the answers of an engine, by its fingerprint, and their number; damaged files do not count."""
    artifacts = (Artifact(store, Generate.table, folder.name) for folder in files.folders(store / Generate.table))
    own = [
        file
        for manifest in filter(None, (artifact.recorded_manifest() for artifact in artifacts))
        if fingerprint(engine=manifest.method["generator"]) == engine
        for file in manifest.files()
        if file.table == Generate.table
    ]
    tables = [files.read_table(path, ["completion_tokens", "error"]) for path in whole_bases(store, own)]
    lengths = [row["completion_tokens"] for table in tables for row in table.to_pylist() if not row["error"]]
    return sum(lengths) / max(1, len(lengths)), len(lengths)
