"""The quote of an evaluation before its start: what every method will ask, read and write, how long it takes, what it
costs.

A few of the questions are tried (questions.py), and all others estimated from them (estimates.py), with the help of
what the store knows of earlier runs (history.py). What is finished costs nothing; nor does a prompt that was answered
before, or that an earlier method asks. No request is sent to a server.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from vitalfew.flows.pipelines.evaluate import EvaluationPlan
from vitalfew.flows.pipelines.quote.estimates import Estimates
from vitalfew.flows.pipelines.quote.history import Assumption, speeds
from vitalfew.flows.pipelines.quote.questions import Told, try_questions, unfinished
from vitalfew.flows.pipelines.quote.quote import START_RAY, START_STAGE
from vitalfew.storage.costs import Quote, save_quotes
from vitalfew.tasks.critique import Critique
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.stage import Stage


@dataclass(frozen=True)
class MethodQuote:
    """What a method takes besides what the methods before it took. `there`: it is finished; tokens in and out are the
    generator's, `critic_tokens` the critic's, `other_tokens` those of all other models."""

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
