"""Settings that are chosen on the development half of the questions, and the figures of the test half.

There are two runs. `NAME/development` asks the development half by every option of the methods that have several, as a
grid would. `NAME` asks the test half by the option of a method that has the best mean; of equal means, by the one
that is listed first. Nothing of the test half is read before the choice is made. The record of the second run has all
options with their means, and the id of the first run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pyarrow.compute as pc

from vitalfew.configs.evaluation import Chosen, Evaluate, Half, Method, Option, Tried
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.evaluate import Evaluated, EvaluationPlan
from vitalfew.flows.pipelines.run import Execute
from vitalfew.storage import files
from vitalfew.storage.artifacts import Manifest
from vitalfew.tasks.ask import HASHED
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.metrics.base import GOLD_ANSWERS, GOLD_PASSAGES, SUPPORTING_FACTS, Column
from vitalfew.tasks.metrics.tables import make_metrics
from vitalfew.tasks.models.causal.engines.budget import capped
from vitalfew.tasks.reports.contents import MetricSummary
from vitalfew.tasks.reports.methods import groups
from vitalfew.tasks.reports.runs import read_summaries, run_of
from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS
from vitalfew.tasks.stage import Stage

AS_THEY_ARE = "or ask all questions with the current settings: --set choose=null"
_GOLD = {GOLD_ANSWERS: "answers", GOLD_PASSAGES: "gold_passages", SUPPORTING_FACTS: "supporting_facts"}
"""The column of `asked` that has what a metric needs of a question."""


class ChoicePlan(EvaluationPlan):
    """The evaluation of the development half. `run` then evaluates the test half.

    Raises user-correctable errors in either, before anything runs.
    """

    def __init__(self, parameters: Evaluate) -> None:
        """`parameters`: complete."""
        self.whole = parameters
        if not self.whole.choose:
            raise ValueError("there are no settings to choose")
        if self.whole.questions.half:
            raise ConfigError(
                f"questions.half: not allowed with `choose`, which asks both halves; leave it out, {AS_THEY_ARE}"
            )
        self.options = self.whole.choose.options
        self.metric = _metric(self.whole, self.whole.choose.by)
        # Every option, and no method without any.
        methods = tuple(option.method for option in self.options)
        development = {"name": f"{self.whole.name}/development", "methods": methods, "baseline": None}
        super().__init__(_of_half(self.whole, "development").model_copy(update=development))
        EvaluationPlan(_of_test(self.whole, {option.of: option for option in self.options}))

    def check(self, stage: Stage, manifest: Manifest) -> None:
        """Raise InputError if too few development questions are asked, or have what the metric needs."""
        if stage.name != "ask":
            return
        for need in (None, *(need for need in self.metric.needs if need in _GOLD)):
            count = manifest.rows["asked"] if need is None else _having(stage.store, manifest, _GOLD[need])
            if count < MIN_QUESTIONS:
                what = f" with {need}, for {self.metric.name}" if need else ""
                raise InputError(
                    f"choose: need at least {MIN_QUESTIONS} development questions{what}, got {count:,}. Ask more "
                    f"(questions.sample, questions.dataset), use another metric (choose.by), {AS_THEY_ARE}"
                )

    def done(self) -> bool:
        """Return whether there is nothing to do for either half."""
        return super().done() and self._test(self._finished(), "").done()

    def alternatives(self) -> list[list[EvaluationPlan]]:
        """The development half; the test half by the chosen options, or by all options if nothing is chosen yet."""
        if super().done():
            return [[self], [self._test(self._finished(), "")]]
        ways: dict[str, list[Option]] = {}
        for option in self.options:
            ways.setdefault(option.of, []).append(option)
        most = max(map(len, ways.values()))
        taken = ({of: way[min(place, len(way) - 1)] for of, way in ways.items()} for place in range(most))
        return [[self], [EvaluationPlan(_of_test(self.whole, each)) for each in taken]]

    def before(self) -> Evaluated | None:
        if (last := self.last()) is None or not last.config.get("chosen"):
            return None
        of_half = run_of(self.store, last.config["chosen"]["run"])
        development = self.outcome_of(of_half) if of_half else None
        if development is None:
            return None
        test = self._test(self._finished(), development.run.run_id).outcome_of(last)
        return test and replace(test, development=development)

    def _finished(self) -> dict[str, Manifest]:
        return {manifest.artifact: manifest for stage in self.stages if (manifest := self.manifest(stage))}

    def run(self, execute: Execute) -> Evaluated:
        with capped(self.whole.max_usd):  # both halves together
            development = super().run(execute)
            manifests = {manifest.artifact: manifest for manifest in development.manifests}
            test = self._test(manifests, development.run.run_id)
            test.quoted_usd = self.quoted_usd
            outcome = test.run(execute)
        return replace(outcome, development=development)

    def _test(self, manifests: Mapping[str, Manifest], run_id: str) -> EvaluationPlan:
        """The plan of the test half, by the results of the development half. Raises InputError."""
        stages = self.by_method.values()
        asked = manifests[next(of_method["ask"].artifact.name for of_method in stages)]
        figures = {
            name: read_summaries(self.store, manifests[of_method["score"].artifact.name])[self.metric.name]
            for name, of_method in self.by_method.items()
        }
        taken, tried = _choice(self.whole.methods, self.options, figures, self.metric)
        chosen = Chosen(
            run=run_id,
            by=self.metric.name,
            heading=self.metric.heading,
            unit=self.metric.unit,
            questions=asked.rows["asked"],
            hashed=asked.note(HASHED),
            tried=tuple(tried),
        )
        return EvaluationPlan(_of_test(self.whole, taken).model_copy(update={"chosen": chosen}))


def _of_test(parameters: Evaluate, taken: Mapping[str, Option]) -> Evaluate:
    """The evaluation of the test half. `taken`: by method, the option that it is set by."""
    methods = (
        taken[method.name].method.model_copy(update={"name": method.name}) if method.name in taken else method
        for method in parameters.methods
    )
    return _of_half(parameters, "test").model_copy(update={"methods": tuple(methods)})


def _of_half(parameters: Evaluate, half: Half) -> Evaluate:
    questions = parameters.questions.model_copy(update={"half": half})
    return parameters.model_copy(update={"questions": questions, "choose": None})


def _choice(
    methods: Sequence[Method], options: Sequence[Option], figures: Mapping[str, MetricSummary], metric: Column
) -> tuple[dict[str, Option], list[Tried]]:
    """The option of every method that has several, and all that were tried. Methods that differ in their seed alone
    choose together, by their mean. `figures`: by the option's name. Raises InputError."""
    taken: dict[str, Option] = {}
    tried: list[Tried] = []
    for group in groups([method for method in methods if any(option.of == method.name for option in options)]):
        ways = [[option for option in options if option.of == method.name] for method in group.methods]
        alike = [[figures[option.method.name] for option in same] for same in zip(*ways, strict=True)]
        means = [_mean([recorded.value for recorded in seeds]) for seeds in alike]
        sign = 1 if metric.direction == "lower" else -1
        known = [(sign * mean, place) for place, mean in enumerate(means) if mean is not None]
        if not known:
            raise InputError(
                f"choose: method {group.name} has no value of {metric.name} on the development questions; use "
                f"another metric (choose.by), {AS_THEY_ARE}"
            )
        best = min(known)[1]  # of equal means the first
        taken |= {way[best].of: way[best] for way in ways}
        for place, (option, mean, seeds) in enumerate(zip(ways[0], means, alike, strict=True)):
            scored = min(recorded.questions for recorded in seeds)
            tried.append(
                Tried(method=group.name, values=option.values, figure=mean, questions=scored, taken=place == best)
            )
    return taken, tried


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _having(store: Path, asked: Manifest, column: str) -> int:
    """How many of the questions that are asked have any value in a column of lists."""
    shards = [file for record in asked.shards for file in record.files]
    lists = (files.read_table(store / file.path, columns=[column])[column] for file in shards)
    return sum(pc.sum(pc.greater(pc.list_value_length(values), 0)).as_py() or 0 for values in lists)


def _metric(parameters: Evaluate, name: str) -> Column:
    """Return the metric that decides. Raises ConfigError where the evaluation has no such metric, or it has no better
    direction."""
    columns = {column.name: column for metric in make_metrics(parameters.score).values() for column in metric.columns()}
    able = [column.name for column in columns.values() if column.direction in ("higher", "lower")]
    if name not in able:
        reason = "it has no better direction" if name in columns else "it is not in score.metrics"
        raise ConfigError(f"choose.by = {name}: {reason}; use one of: {', '.join(able)}")
    return columns[name]
