"""The trial of an evaluation on a few of its questions, in a folder of its own: the store is read, and not written to.

All questions are chosen as the run will choose them. Of these some are drawn: `WIDE` of them get their contexts, which
says what prompts there will be; `TRIED` of those go through all stages, after `FIRST` others, which let every model be
loaded. Servers that may cost money are sent nothing (`assuming`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from vitalfew.configs.evaluation import Evaluate, Questions
from vitalfew.flows.pipelines.evaluate import EvaluationPlan, Stages, evaluation_stages
from vitalfew.flows.pipelines.quote.history import Assumption
from vitalfew.flows.pipelines.run import in_order
from vitalfew.storage.artifacts import Manifest
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.models.causal.engines.remote import assuming
from vitalfew.tasks.stage import Stage

FIRST, TRIED, WIDE = 2, 8, 32
Told = Callable[[int, int], None]
"""Called with how many of the trial's stages are done, of how many."""


@dataclass(frozen=True)
class Sample:
    """The stages of an evaluation on some of its questions."""

    questions: int
    stages: Stages

    def until(self, last: str | None) -> list[Stage]:
        """Those before the stage of that name, in the order of execution; None: all."""
        kept = []
        for of_method in self.stages.values():
            names = [*of_method]
            kept += [of_method[name] for name in names[: names.index(last) if last in names else len(names)]]
        return [stage for step in in_order(kept) for stage in step]


@dataclass(frozen=True)
class Trial:
    """What came of it. `ids`: of all questions; `asked`: the artifact's manifest; `before`: what preceded the samples,
    by stage; `done`: every manifest of the samples, by artifact; `assumed`: the artifacts whose model was not asked."""

    ids: np.ndarray
    before: dict[str, Manifest]
    first: Sample | None
    tried: Sample
    wide: Sample
    done: dict[str, Manifest] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)

    def manifest(self, sample: Sample | None, method: str, stage: str) -> Manifest | None:
        """Of a stage on a sample; None where it was not tried on it."""
        return self.done.get(sample.stages[method][stage].artifact.name) if sample else None

    def generate(self, sample: Sample, method: str) -> Generate:
        stage = sample.stages[method][Generate.name]
        assert isinstance(stage, Generate)
        return stage


def try_questions(plan: EvaluationPlan, folder: Path, assumption: Assumption, told: Told) -> Trial:
    """Raises the errors of the stages, InputError for a question set that is empty among them."""
    ids, before = _questions(plan, folder)
    drawn = ids[np.random.default_rng(abs(plan.parameters.questions.seed)).permutation(len(ids))[:WIDE]]
    start = FIRST if len(drawn) >= FIRST + TRIED else 0
    first = _sample(plan, folder, drawn[:start]) if start else None
    tried, wide = _sample(plan, folder, drawn[start : start + TRIED]), _sample(plan, folder, drawn)
    trial = Trial(ids, before, first, tried, wide)
    due = [*(first.until(None) if first else ()), *tried.until(None), *wide.until(Generate.name)]
    with assuming(assumption):
        for place, stage in enumerate(due):
            told(place, len(due))
            asked = assumption.asked
            trial.done[stage.artifact.name] = stage.run("plan")
            if assumption.asked > asked:
                trial.assumed.add(stage.artifact.name)
    return trial


def _questions(plan: EvaluationPlan, folder: Path) -> tuple[np.ndarray, dict[str, Manifest]]:
    """The ids of all questions that will be asked, and what it took to choose them where the store has them not."""
    there = plan.ask
    manifest = plan.manifest(there)
    done: dict[str, Manifest] = {}
    if manifest is None:
        stages = next(iter(_stages(plan.parameters, plan.store, folder, plan.parameters.questions).values()))
        for name in ("load", "ask"):
            if name in stages and stages[name].store != plan.store.absolute():
                done[name] = stages[name].run("plan")
        there, manifest = stages["ask"], done["ask"]
    plan.check(there, manifest)
    assert isinstance(there, Ask)
    return there.ids(), done


def _sample(plan: EvaluationPlan, folder: Path, ids: np.ndarray) -> Sample:
    condition = f"question_id IN ({', '.join(map(str, ids.tolist()))})"
    questions = Questions(dataset=plan.parameters.questions.dataset, where=condition, batch=len(ids))
    stages = _stages(plan.parameters, plan.store, folder, questions)
    return Sample(len(ids), {method: stages[method] for method in unfinished(plan)})


def unfinished(plan: EvaluationPlan) -> list[str]:
    """The methods with a stage that is not finished."""
    return [method for method, stages in plan.by_method.items() if not all(map(plan.manifest, stages.values()))]


def _stages(parameters: Evaluate, store: Path, folder: Path, questions: Questions) -> Stages:
    return evaluation_stages(parameters.model_copy(update={"store": folder, "questions": questions}), store)
