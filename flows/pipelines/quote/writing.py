"""The quote of written questions before the run: `vitalfew plan questions --index NAME`.

It is for as many passages as questions are asked for, as if every passage gave one. A model on this machine is tried on
a few passages (sample.py), and so is a writer without a model. Nothing is sent to a server: its tokens follow from the
lengths of the passages and of the longest reply, and its time from earlier runs.
"""

import tempfile
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from vitalfew.flows.pipelines.paying import of_requests
from vitalfew.flows.pipelines.quote.assumed import timed
from vitalfew.flows.pipelines.quote.sample import (
    Announce,
    Sample,
    estimate,
    measured,
    start_seconds,
    tried,
    worker_count,
)
from vitalfew.flows.pipelines.secrets import asks_servers
from vitalfew.flows.pipelines.write_questions import WritingPlan
from vitalfew.storage.costs import Quote, save_quotes
from vitalfew.tasks.write import Write

MOST, SECONDS = 64, 15.0
"""Passages in the sample at most, and how long it may take."""


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
    units, most = min(config.n, plan.passages), min(config.n * config.spare, plan.passages)
    bases = [f"as if every passage gave a question; of those that are refused, others are tried: {most:,} at most"]
    if asks_servers(stage):
        each = plan.tokens_of_a_question()
        sample = Sample(1, 1, 1, round(each), 0.0, 0.0, 0.0, 0.0, 0, 0)
        bases.append(f"{each:,.0f} tokens per question: prompts, and replies as long as they may be")
    else:
        sample = _tried(plan, announce)
    quote = estimate(
        stage, plan.parameters, sample, units, ceil(units / config.batch), rows=units, prepared=sample.units
    )
    if asks_servers(stage):
        if not (quoted := timed(plan.store, stage, quote)):
            bases.append(f"the time of {stage.model_name} is unknown and not included")
        quote = quoted or quote
    save_quotes(plan.store, [quote])
    return QuotedWriting([quote], workers, start_seconds(plan.parameters, 1), of_requests(stage, quote), bases)


def _tried(plan: WritingPlan, announce: Announce) -> Sample:
    folders = iter(range(3))

    def run(count: int) -> dict[str, Sample]:
        count = min(count, plan.passages)
        announce(f"write, on {count} {'passage' if count == 1 else 'passages'}")
        config = plan.writing.config.model_copy(update={"n": count, "spare": 1})
        stage = Write(Path(folder, str(next(folders))), plan.writing.inputs["passages"], config)
        return {stage.name: measured(stage, count)}

    with tempfile.TemporaryDirectory() as folder:
        return tried(run, 1, min(MOST, plan.passages), SECONDS)[plan.writing.name]
