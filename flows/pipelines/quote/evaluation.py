"""The estimate of an evaluation before the run, by stage and model: tokens, time and costs.

All questions are chosen as the run will choose them, and some of them are tried in a temporary folder (sample.py).
Finished work costs nothing; nor does a prompt that was answered before, or that an earlier stage asks. No request is
sent to a server: its answers are assumed.
"""

import tempfile
from functools import partial
from math import ceil
from pathlib import Path

import numpy as np

from vitalfew.configs.evaluation import Questions
from vitalfew.flows.pipelines.evaluate import EvaluationPlan, Stages, evaluation_stages
from vitalfew.flows.pipelines.paying import asks_servers, of_requests
from vitalfew.flows.pipelines.quote.sample import (
    Announce,
    Quoted,
    Sample,
    estimate,
    quoted_rows,
    start_seconds,
    timed,
    tried,
    try_missing,
    worker_count,
)
from vitalfew.flows.pipelines.run import in_order
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, fingerprint, whole_bases
from vitalfew.storage.costs import Quote, save_quotes
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.load import Load
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.remote import Remote, assuming
from vitalfew.tasks.stage import Stage

SECONDS, MOST = 30.0, 32
"""How long the samples of a run may take, and the most questions in one."""
OPEN = "the settings are not chosen yet: those that take the most tokens are estimated"


def quote_evaluation(plan: EvaluationPlan, announce: Announce = lambda text: None) -> Quoted:
    """Estimate an evaluation, and store the estimates of its stages in its store. `announce`: called with what is done
    now.

    Raises InputError, and the errors of the stages, as the run itself would."""
    alternatives = plan.alternatives()
    is_open = any(len(plans) > 1 for plans in alternatives)
    due = sum(any(each.missing() for each in plans) for plans in alternatives)
    with tempfile.TemporaryDirectory(prefix="vitalfew-plan-") as folder:  # alternatives share most of their stages
        of_part = partial(_part, folder=Path(folder), seconds=SECONDS / max(1, due), announce=announce)
        parts = [max(map(of_part, plans), key=lambda part: part.tokens) for plans in alternatives]
    return Quoted(
        rows=[row for part in parts for row in part.rows],
        workers=worker_count(plan.parameters),
        start_seconds=start_seconds(plan.parameters, sum(len({each.stage for each in part.stages}) for part in parts)),
        requests_usd=sum(part.requests_usd for part in parts),
        bases=[*dict.fromkeys(basis for part in parts for basis in part.bases), *([OPEN] * is_open)],
        parts=parts,
    )


def _part(plan: EvaluationPlan, folder: Path, seconds: float, announce: Announce) -> Quoted:
    name, workers = plan.parameters.name, worker_count(plan.parameters)
    if plan.done():
        asked = plan.manifest(plan.ask)
        assert asked
        rows, questions = quoted_rows(plan.stages, []), asked.rows[plan.ask.table]
        return Quoted(headings=_heading(name, questions), questions=questions, rows=rows, workers=workers)
    trial = _Trial(plan, folder, announce)
    samples = trial.run(seconds)
    missing = [stage for stage in plan.stages if stage.artifact.name in samples]
    quotes = [trial.quote(stage, samples[stage.artifact.name]) for stage in missing]
    save_quotes(plan.store, quotes)
    return Quoted(
        headings=_heading(name, len(trial.ids)),
        questions=len(trial.ids),
        rows=quoted_rows(plan.stages, quotes),
        workers=workers,
        requests_usd=sum(map(of_requests, missing, quotes)),
        bases=[*trial.bases],
    )


def _heading(name: str, questions: int) -> list[str]:
    return [f"{name}: {questions:,} questions"]


class _Trial:
    """The stages of an evaluation on a sample of its questions. `bases`: what the estimate rests on, in words."""

    def __init__(self, plan: EvaluationPlan, folder: Path, announce: Announce) -> None:
        """Choose the questions. Raises InputError where there are none."""
        self.plan, self.folder, self.announce = plan, folder, announce
        self.bases: dict[str, None] = {}
        ask = plan.ask
        if not plan.manifest(ask):
            stages = next(iter(self._stages(plan.parameters.questions).values()))
            for name in (Load.name, Ask.name):
                if name in stages and stages[name].store != plan.store.absolute():
                    stages[name].run("plan")
            ask = stages[Ask.name]
        plan.check(ask, ask.artifact.completed())
        assert isinstance(ask, Ask)
        self.ids = ask.ids()

    def _stages(self, questions: Questions) -> Stages:
        """The stages of the plan in the temporary folder, of these questions."""
        parameters = self.plan.parameters.model_copy(update={"store": self.folder, "questions": questions})
        return evaluation_stages(parameters, self.plan.indexes, self.plan.store)

    def run(self, seconds: float) -> dict[str, Sample]:
        """The samples of the missing stages, by their artifacts."""
        left = self.ids[np.random.default_rng(abs(self.plan.parameters.questions.seed)).permutation(len(self.ids))]
        most, found = min(MOST, len(left) - 1), dict[str, Sample]()

        def run(count: int) -> dict[str, Sample]:
            nonlocal left, found
            if len(left):  # else there is but one question
                found, left = self._try(left[:count]), left[count:]
            return found

        with assuming(Assumption(self.plan.store, self.bases)):
            return tried(run, 1, most, seconds)

    def _try(self, ids: np.ndarray) -> dict[str, Sample]:
        """Run the missing stages on some questions."""
        condition = f"question_id IN ({', '.join(map(str, ids.tolist()))})"
        settings = Questions(dataset=self.plan.parameters.questions.dataset, where=condition, batch=len(ids))
        planned = {
            stage.artifact.name: (stage, self.plan.by_method[method][name])
            for method, own in self._stages(settings).items()
            for name, stage in own.items()
        }
        groups = in_order(stage for stage, _ in planned.values())
        pairs = [planned[stage.artifact.name] for group in groups for stage in group]
        found = try_missing(pairs, self.plan, len(ids), self.announce)
        chosen = {whole.artifact.name for _, whole in pairs if isinstance(whole, Ask | Load)}
        return {name: sample for name, sample in found.items() if name not in chosen}

    def quote(self, stage: Stage, sample: Sample) -> Quote:
        """Estimate a stage on all questions whose shard is not done."""
        parameters, left = self.plan.parameters, self._left(stage)
        shards = max(1, ceil(left / parameters.questions.batch))
        quote = estimate(stage, parameters, sample, left, shards)
        if not asks_servers(stage):
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


ENOUGH = 8
"""Earlier answers that make a mean length."""
BYTES = 4
"""Bytes of UTF-8 per token, assumed for a server's model."""


class Assumption:
    """Assumes the answers of a server's model: as long as its earlier answers in a store were on average, else as long
    as they may be. `bases`: gets the basis in words."""

    def __init__(self, store: Path, bases: dict[str, None]) -> None:
        self.store, self.bases = store, bases
        self._known: dict[str, float] = {}

    def __call__(self, engine: Remote, prompt: str) -> Completion:
        key = fingerprint(engine=engine.identity())
        if key not in self._known:
            self._known[key] = self._answer(engine, key)
        written = max(1, round(min(engine.options.max_tokens, self._known[key])))
        return Completion(" ".join(["word"] * written), round(len(prompt.encode()) / BYTES), written, 0.0)

    def _answer(self, engine: Remote, key: str) -> float:
        """The tokens of an answer."""
        lengths = _answers(self.store, key)
        answer = sum(lengths) / max(1, len(lengths))
        basis = f"{answer:,.1f} tokens per answer (mean of {len(lengths):,} earlier ones)"
        if len(lengths) < ENOUGH:
            answer = engine.options.max_tokens
            basis = f"max_tokens={answer:,} for every answer (the maximum cost)"
        name = engine.options.model or type(engine).__name__
        self.bases[f"nothing was sent to {name}; estimate: a token for {BYTES} bytes of a prompt, {basis}"] = None
        return answer


def _answers(store: Path, engine: str) -> list[int]:
    """The tokens of the answers of an engine, by its fingerprint; damaged files do not count."""
    artifacts = (Artifact(store, Generate.table, folder.name) for folder in files.folders(store / Generate.table))
    manifests = filter(None, (artifact.recorded_manifest() for artifact in artifacts))
    own = (each for each in manifests if fingerprint(engine=each.method["generator"]) == engine)
    paths = whole_bases(store, [file for each in own for file in each.files() if file.table == Generate.table])
    tables = [files.read_table(path, ["completion_tokens", "error"]) for path in paths]
    return [row["completion_tokens"] for table in tables for row in table.to_pylist() if not row["error"]]
