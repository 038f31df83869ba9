"""The quote of an evaluation before the run: what every method will ask, read and write, how long it takes, what it
costs.

A few of the questions are tried (questions.py), and the rest is forecast from them (forecast.py) and from earlier runs
in the store. Finished work costs nothing; nor does a prompt that was answered before, or that an earlier method asks.
No request is sent to a server.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from vitalfew.flows.pipelines.evaluate import EvaluationPlan
from vitalfew.flows.pipelines.paying import of_requests
from vitalfew.flows.pipelines.quote.forecast import Forecast, Speed, Work, start_seconds, worker_count
from vitalfew.flows.pipelines.quote.questions import (
    Assumption,
    Trial,
    TryQuestions,
    answer_length,
    speeds,
    unfinished,
)
from vitalfew.flows.pipelines.quote.trial import Announce
from vitalfew.storage import journals
from vitalfew.storage.costs import Quote, save_quotes
from vitalfew.storage.journals import JournalEntry
from vitalfew.tasks.generate import Due, Generate
from vitalfew.tasks.rate import Critique
from vitalfew.tasks.stage import Stage


@dataclass(frozen=True)
class Prompts:
    """The prompts of a method: means per question. `new`: prompts that were not asked before, `characters`: of these;
    `computed`: tokens computed to select the prompts; `growth`: characters of all prompts, as a multiple of those that
    were tried."""

    all: float
    new: float
    characters: float
    computed: float
    growth: float


@dataclass(frozen=True)
class Asked:
    """Estimated prompts of a generator, and the tokens that it reads, writes, and computes to select the prompts.
    `fresh`: tokens that are computed, as a share of those that are read or written: others may be remembered of an
    earlier prompt with the same contexts."""

    prompts: float
    read: float
    written: float
    computed: float
    fresh: float


class Estimates:
    """The work that an evaluation leaves to its stages. `bases`: what it rests on besides the trial, in words."""

    def __init__(self, plan: EvaluationPlan, trial: Trial, speeds: dict[tuple[str, str | None], Speed]) -> None:
        self.plan, self.trial, self.speeds = plan, trial, speeds
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
            samples = self.trial.with_contexts(method)
            parts = [sample.generate(method).due(0) for sample in samples]
            due, computed = [each for part, _ in parts for each in part], sum(tokens for _, tokens in parts)
            keys = [each.key for each in due]
            known = stage.known(keys, stage.answers_in(stage.earlier())).keys() | self._asked
            new = {each.key: len(each.prompt.text) for each in due if each.key not in known}
            self._asked.update(keys)
            n = sum(sample.questions for sample in samples)
            answered = self._answered(method) / sum(sample.questions for sample in self.trial.answered)
            growth = _characters(due) / n / answered
            means = Prompts(len(due) / n, len(new) / n, sum(new.values()) / n, computed / n, growth)
            self._prompts[stage.artifact.name] = means
        return self._prompts[stage.artifact.name]

    def _answered(self, method: str) -> int:
        """The characters of the prompts that were answered in the trial."""
        return sum(_characters(sample.generate(method).due(0)[0]) for sample in self.trial.answered)

    def asked(self, method: str, stage: Generate) -> Asked:
        """Estimate what the generator is asked, without answers that a killed run has paid for."""
        prompts, tried = self.prompts(method, stage), [each.generate(method) for each in self.trial.answered]
        rows = [row for each in tried for row in each.artifact.completed().read(each.store, each.table).to_pylist()]
        per_character = sum(row["prompt_tokens"] for row in rows) / self._answered(method)
        length = answer_length(stage, tried[0])
        mean = length[0] if length else sum(row["completion_tokens"] for row in rows) / len(rows)
        if not self.trial.is_assumed(method, stage.name):
            how = (
                "as in earlier answers" if length else "as in the trial, because the store has too few earlier answers"
            )
            self.bases[f"{method}: {mean:,.1f} tokens out per prompt, {how}"] = None
        left = self.left(stage)
        due = left * prompts.new
        asked = max(0.0, due - sum(1 for _ in _paid(stage)))
        share = asked / due if due else 0.0
        read = share * left * prompts.characters * per_character
        computed = share * left * prompts.computed
        return Asked(asked, read, asked * mean, computed, self._fresh(method, stage, rows))

    def _fresh(self, method: str, stage: Generate, rows: list[dict[str, Any]]) -> float:
        """The tokens that the trial computed, as a share of those that its new answers (`rows`) read or wrote."""
        counted = sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows if not row["reused"])
        selecting = sum(sample.generate(method).due(0)[1] for sample in self.trial.answered)
        done = self.trial.measured(self.trial.answered, method, stage.name)
        return max(0.0, sum(each.tokens * each.shards for each in done) - selecting) / counted if counted else 1.0

    def quote(self, method: str, stage: Stage, asked: Asked | None) -> Quote:
        """Quote a stage. `asked`: of a generator. The work of the stages after the answers follows the characters of
        the prompts, that of all others follows the questions."""
        if before := self.trial.before.get(stage.name):
            return Forecast(stage, self.plan.parameters, None, [before]).quote(Work(before.units, round(before.shards)))
        trial = self.trial
        answered = trial.measured(trial.answered, method, stage.name)
        cold, warm = (answered[0], answered[1:]) if len(answered) > 1 else (None, answered)
        wide = trial.measured([trial.wide], method, stage.name) if trial.wide else []
        forecast = Forecast(stage, self.plan.parameters, cold, [*warm, *wide])
        left, rows = self.left(stage), None
        if asked and isinstance(stage, Generate):
            rows = left * self.prompts(method, stage).all
            tokens = asked.fresh * (asked.read + asked.written) + asked.computed
        else:
            generate = self.plan.by_method[method].get(Generate.name)
            growth = 1.0
            if isinstance(generate, Generate) and not wide:
                growth = self.prompts(method, generate).growth
            paid = sum(entry.tokens for entry in _paid(stage))
            tokens = max(0.0, left * growth * forecast.per_unit("tokens") - paid)
        speed = self.speeds.get((stage.name, stage.model_name)) if tokens else None
        if not speed and self.trial.is_assumed(method, stage.name):
            self.bases[f"the time of {stage.model_name} is unknown and not included"] = None
        shards = max(1, ceil(left / self.plan.parameters.questions.batch))
        return forecast.quote(Work(left, shards, rows, tokens), speed)


def _characters(due: list[Due]) -> int:
    return sum(len(each.prompt.text) for each in due)


def _paid(stage: Stage) -> Iterator[JournalEntry]:
    """The answers in the journals of shards that are not done, for which a run that was killed has paid."""
    for path in journals.paths(stage.artifact):
        if path.stem.isdigit() and not stage.artifact.record(int(path.stem)):
            yield from journals.entries(path)


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


SECONDS = 40.0
"""How long the trial of a run takes at most, without the loading of models and what an overlong last sample adds."""


def quote_evaluation(plan: EvaluationPlan, announce: Announce = lambda text: None) -> QuotedEvaluation:
    """Quote an evaluation, and store the quotes of its stages in its store. `announce`: called with what is done now.

    Raises InputError, and the errors of the stages, as the run itself would."""
    alternatives = plan.alternatives()
    due = sum(any(each.missing() for each in plans) for plans in alternatives)
    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:  # alternatives share most of their stages
        tried = partial(_part, folder=Path(folder), seconds=SECONDS / max(1, due), announce=announce)
        parts = [max(map(tried, plans), key=lambda part: part.tokens) for plans in alternatives]
    start = start_seconds(plan.parameters, sum(part.stages for part in parts))
    return QuotedEvaluation(parts, worker_count(plan.parameters), start, any(len(plans) > 1 for plans in alternatives))


def _part(plan: EvaluationPlan, folder: Path, seconds: float, announce: Announce) -> QuotedPart:
    name = plan.parameters.name
    missing = plan.missing()
    if not missing:
        asked = plan.manifest(plan.ask)
        assert asked
        return QuotedPart(name, asked.rows[plan.ask.table], [MethodQuote(each, there=True) for each in plan.by_method])
    assumption = Assumption(plan.store)
    trial = TryQuestions(plan, folder, assumption, announce).run(seconds)
    estimates = Estimates(plan, trial, speeds(plan.store))
    methods = [*_methods(plan, estimates)]
    bases = [*assumption.said.values(), *estimates.bases]
    return QuotedPart(name, len(trial.ids), methods, bases, len({stage.name for stage in missing}))


def _methods(plan: EvaluationPlan, estimates: Estimates) -> Iterator[MethodQuote]:
    """Quote every method, without the stages that it shares with an earlier one. Saves the quotes."""
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
    """Add one more stage to the figures of a method. Returns that stage's quote too."""
    asked = estimates.asked(row.method, stage) if isinstance(stage, Generate) else None
    quote = estimates.quote(row.method, stage, asked)
    other, critic = row.other_tokens, row.critic_tokens
    if asked:
        row = replace(row, prompts=round(asked.prompts), tokens_in=round(asked.read), tokens_out=round(asked.written))
        other += round(asked.computed)
    elif isinstance(stage, Critique):
        critic += quote.tokens
    elif stage.name not in estimates.trial.before:
        other += quote.tokens
    wall, usd = row.wall_seconds + quote.wall_seconds, row.usd + quote.usd
    row = replace(row, requests_usd=row.requests_usd + of_requests(stage, quote))
    return replace(row, critic_tokens=critic, other_tokens=other, wall_seconds=wall, usd=usd), quote
