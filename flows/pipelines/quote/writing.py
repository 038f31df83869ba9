"""The quote of written questions before the run: `vitalfew plan questions --index NAME`.

It is for as many passages as questions are asked for, as if every passage gave one. A model on this machine is tried on
a few passages in a temporary folder, which includes loading it, and so is a writer without a model. Nothing is sent to
a server: its tokens follow from the lengths of the passages and of the longest reply, and its time from earlier runs.
"""

import tempfile
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from vitalfew.flows.pipelines.paying import of_requests
from vitalfew.flows.pipelines.quote.forecast import Forecast, Work, start_seconds, worker_count
from vitalfew.flows.pipelines.quote.questions import speeds
from vitalfew.flows.pipelines.quote.trial import Announce, StageSample, try_stage
from vitalfew.flows.pipelines.secrets import asks_servers
from vitalfew.flows.pipelines.write_questions import WritingPlan
from vitalfew.storage.costs import Quote, save_quotes
from vitalfew.tasks.write import Write

FEW, MANY = 2, 64
"""Passages that a model, and a writer without one, is tried on after the first."""


@dataclass(frozen=True)
class QuotedWriting:
    """`stages`: the quote of the stage, empty if the questions are there; `bases`: what it rests on, in words;
    `requests_usd`: the part of the USD that is for requests to servers."""

    stages: list[Quote]
    workers: int
    start_seconds: float
    requests_usd: float
    bases: list[str]

    @property
    def wall_seconds(self) -> float:
        return self.start_seconds + sum(quote.wall_seconds for quote in self.stages)


def quote_writing(plan: WritingPlan, announce: Announce) -> QuotedWriting:
    """Quote a run, and keep the quote beside its store for `costs`. Raises the errors of the writer."""
    workers = worker_count(plan.parameters)
    if plan.done():
        return QuotedWriting([], workers, 0.0, 0.0, [])
    stage, config = plan.writing, plan.parameters.write
    units = min(config.n, plan.passages)
    most = min(config.n * config.spare, plan.passages)
    bases = [f"as if every passage gave a question; of those that are refused, others are tried: {most:,} at most"]
    speed = speeds(plan.store).get((stage.name, stage.model_name))
    tokens = units * plan.tokens_of_a_question()
    if asks_servers(stage):
        cold, warm = None, _assumed(tokens)
        bases.append(f"{tokens / max(1, units):,.0f} tokens per question: prompts, and replies as long as they may be")
        if not speed:
            bases.append(f"the time of {stage.model_name} is unknown and not included")
    else:
        cold, warm = _tried(plan, FEW if tokens else MANY, announce)
        tokens = units * warm.tokens * warm.shards / warm.units
    work = Work(units, ceil(units / config.batch), tokens=tokens, prepared=warm.units)
    quote = Forecast(stage, plan.parameters, cold, [warm]).quote(work, speed if tokens else None)
    save_quotes(plan.store, [quote])
    return QuotedWriting([quote], workers, start_seconds(plan.parameters, 1), of_requests(stage, quote), bases)


def _assumed(tokens: float) -> StageSample:
    """The sample of a server that was not asked."""
    measured = ("wall", "cpu", "memory", "disk", "preparation_wall", "preparation_cpu")
    return StageSample(1, 1, 1, tokens, **dict.fromkeys(measured, 0.0))


def _tried(plan: WritingPlan, more: int, announce: Announce) -> tuple[StageSample, StageSample]:
    """The samples of one passage, with which models are loaded, and of some more."""
    samples = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (1, more):
            announce(f"write, on {count} {'passage' if count == 1 else 'passages'}")
            config = plan.writing.config.model_copy(update={"n": count, "spare": 1})
            stage = Write(Path(folder, str(count)), plan.writing.inputs["passages"], config)
            samples.append(try_stage(stage, min(count, plan.passages)))
    return samples[0], samples[1]
