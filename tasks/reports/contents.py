"""The parts of a report: an experiment's methods with their figures and costs, read from the store by the verb.

Every output (terminal, Markdown, Parquet, CSV, HTML) is a pure function of a `Report`: all show the same figures.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vitalfew.configs.evaluation import Chosen
from vitalfew.tasks.metrics.base import Column
from vitalfew.tasks.reports.shown.text import one_line
from vitalfew.tasks.reports.statistics.agreement import ReviewersAgreement
from vitalfew.tasks.reports.statistics.bootstrap import Interval
from vitalfew.tasks.reports.statistics.paired import Difference
from vitalfew.tasks.reports.statistics.prediction_powered import PoweredInterval

if TYPE_CHECKING:
    from vitalfew.tasks.reports.papers import Ours, Paper

STAGE_SECONDS = Column("stage_seconds", "seconds, without cache", "s", "lower")
STAGE_USD = Column("stage_usd", "USD, without cache", "USD", "lower")
PAID_USD = Column("paid_usd", "USD paid now", "USD", "neither")
"""Measures that come from the costs: of all stages together, per question. The first two are those without
a cache, whichever run paid; the third is what this run paid, a shared stage once."""
INDEX_SECONDS = Column("index_seconds", "index seconds", "s", "lower", detail=True)
RECORDED = "recorded"
"""The generator whose seconds and USD are those that its file names."""
INDEX_USD = Column("index_usd", "index USD", "USD", "lower", detail=True)
"""Costs of the method's index, from source files to FAISS; none where it holds vectors that another index paid for."""


def undeclared(metric: str) -> Column:
    """A metric of which nothing but its name is known."""
    return Column(metric, metric.replace("_", " "), "", "neither")


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """A metric over all questions. `value`: the mean, or None where no question could be scored.

    `column`: what the metric declares of itself; `questions`: it is the mean of; `left_out`: gave no ground for it;
    `low`, `high`: the ends of a 95 % interval around `value`, where there are questions enough for one; `spread`:
    between the highest and the lowest of several seeds.
    """

    column: Column
    value: float | None
    questions: int
    left_out: int = 0
    low: float | None = None
    high: float | None = None
    spread: float | None = None

    def ends(self) -> tuple[float, float]:
        """The ends of its interval; the value itself for an end that it lacks."""
        value = self.value or 0.0
        return value if self.low is None else self.low, value if self.high is None else self.high


@dataclass(frozen=True, slots=True)
class StageCost:
    """The cost of one stage for one method, summed over its shards. `usd`: at configs/prices.yaml; `peak_memory_bytes`:
    of the worker that took most; `reused`: it was there already, this run paid nothing for it; `shared`: an earlier
    method of the report has it, too, and it was paid once; `whole_seconds` (wall), `whole_usd`: as if no answer,
    reading or vector had been known before; `paid_usd`: paid by this run, 0 if shared."""

    stage: str
    rows: int = 0
    tokens: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    usd: float = 0.0
    peak_memory_bytes: int = 0
    reused: bool = False
    shared: bool = False
    batches: int = 1
    whole_seconds: float = 0.0
    whole_usd: float = 0.0
    paid_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Paid:
    """The costs of a run (USD, CPU seconds), and what it reused and did not pay again: `earlier_…`, of artifacts of
    earlier runs, and of answers, readings and vectors in new ones. `loading_usd`: the part of the costs that
    was for loading models, which is in no method's costs."""

    usd: float = 0.0
    cpu_seconds: float = 0.0
    earlier_usd: float = 0.0
    earlier_cpu_seconds: float = 0.0
    earlier_stages: tuple[str, ...] = ()
    loading_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class IndexResult:
    """An index that a method searched: what is in it, and what it took from source files to FAISS (as `StageCost`).

    `copied`: vectors that were taken over from another index, and whose cost is not in this one's; `used_by`: methods.
    """

    name: str
    settings: str
    passages: int
    sentences: int
    tokens: int
    wall_seconds: float
    cpu_seconds: float
    usd: float
    peak_memory_bytes: int
    disk_bytes: int
    copied: int = 0
    used_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReaderCounts:
    """Retrieval, refiner or reader. Of the `questions` with gold answers: those whose contexts (else hits) hold one
    (`held`), and those of them that are answered right, `answered`. `where`: what was searched for it: "the first 10
    sentences"; `whole`: the reader saw all of that; `dropped`: questions whose hits hold an answer and whose contexts
    do not; `is_told_apart`: retrieval and refiner can be told apart; `worded`: questions that are neither held nor
    dropped, although the gold passage or facts were found: no gold answer stands there literally."""

    questions: int
    held: int
    answered: int
    where: str
    whole: bool = True
    dropped: int = 0
    is_told_apart: bool = True
    worded: int = 0


@dataclass(frozen=True, slots=True)
class MethodResult:
    """A row of the table. `settings`: those in which the methods differ, by key ("retrieve.alpha"); `error_rows`:
    questions without an answer, `errors`: the first different messages; `fingerprints`: table → artifact, for SQL;
    `against`: the place of its baseline among the methods, None for a baseline; `differences`: to that, by metric (none
    for metrics of all answers together); `seeds`: of which this is the mean; `context`: the mode of the context vectors
    that its sentences are weighed with; `reading`: retrieval against reader, where both were scored; `generator`: that
    answers, with its model; `budget`: `refine.max_tokens`, a bound that a method may stay below; `stopped`: questions
    for which its refiner was sure enough with less; `without_hits`: for which nothing was retrieved; `cut`, `refused`:
    answers that the limit of tokens cut, or that the model or a filter refused; `token_prices`: USD of a million tokens
    of its generator, and of a million cached ones; None where no price is listed for it; `unpriced`: the servers'
    models that have no price; `unjudged`: the first error of a judge that has judged none of its answers."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    summaries: Mapping[str, MetricSummary] = field(default_factory=dict)
    costs: tuple[StageCost, ...] = ()
    error_rows: int = 0
    errors: tuple[str, ...] = ()
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    against: int | None = None
    differences: Mapping[str, Difference] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    context: str | None = None
    reading: ReaderCounts | None = None
    generator: str | None = None
    budget: int | None = None
    stopped: int = 0
    without_hits: int = 0
    cut: int = 0
    refused: int = 0
    token_prices: tuple[float, float] | None = None
    unpriced: tuple[str, ...] = ()
    unjudged: str = ""

    @property
    def label(self) -> str:
        """Its name, fit for one line of a terminal or a plot, with the context mode: "ParetoRAG (late)"."""
        name = one_line(self.name)
        return f"{name} ({self.context})" if self.context and self.context not in name else name


@dataclass(frozen=True, slots=True)
class BestAlpha:
    """The alpha with the highest mean of `metric` in a sweep, and the range that holds it in 95 % of the resamples of
    the questions. `family`: what the sweep's methods share, '' where there is but one sweep."""

    metric: str
    family: str
    alpha: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Two methods, by their places; `difference`: the first minus the second, in the primary metric."""

    one: int
    other: int
    difference: Difference


@dataclass(frozen=True, slots=True)
class Answered:
    """A method's answers to a question, best first, with their `value` in the primary metric. `contexts`: of the prompt
    (of all prompts together); `holding`: the place of the first that holds a gold answer, 0: none does; `excerpt`: of
    that context, or of the first one."""

    method: str
    answers: tuple[str, ...]
    value: float
    contexts: int
    holding: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class DifferingQuestion:
    """A question whose answers differ in the primary metric from method to method, or that all methods answer wrong."""

    question: str
    gold: tuple[str, ...]
    answered: tuple[Answered, ...]


@dataclass(frozen=True, slots=True)
class Differing:
    """`count` of the `questions` that all `methods` have a value for differ; `shown`: those that differ most,
    then some that all answer wrong."""

    questions: int
    count: int
    methods: tuple[str, ...]
    shown: tuple[DifferingQuestion, ...]


@dataclass(frozen=True, slots=True)
class AskedQuestions:
    """The number of questions that were asked, their source, the SQL condition, the seed if only some of them were
    drawn, and the half; `hashed`: how many of them a hash put into that half; `lost`: those that name a source or quote
    as their gold that the searched index lacks, and `lost_places`: the first of these places; `gapped`: those that are
    sentences of the corpus with a gap, as the writer `cloze` makes them."""

    questions: int
    source: str
    where: str | None = None
    seed: int | None = None
    half: str | None = None
    hashed: int = 0
    lost: int = 0
    lost_places: tuple[str, ...] = ()
    gapped: int = 0

    @property
    def is_gapped(self) -> bool:
        """Return whether most questions are sentences with a gap, which favour searches for sentences and words."""
        return 2 * self.gapped > self.questions


@dataclass(frozen=True, slots=True)
class LabelledMethod:
    """The share of a method's answers that are right, by the judge, by people and by both; `difference`: to the method
    `against` on the same questions, None for a baseline. `answers`: that there are; `unsure`, `split`: answers without
    a label, because people were unsure, or as many said right as wrong."""

    name: str
    share: PoweredInterval
    against: str | None
    difference: PoweredInterval | None
    answers: int
    unsure: int
    split: int


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two methods whose answers people compared. `alike`: questions with the same answer of both, which count as
    ties; `differing`: the others; `verdicts`: of those with a label, how many say that `one` is better, that both are
    equal, and that `other` is better; `share`: of all questions, those on which `one` is better, a tie counting half.
    `labels`, `judge`: the same by labels alone and by the judge's preferences alone, which are then in `share`; None
    where it gave none. `halved_by` (None where answers are alike, whose share no review
    makes surer), `unsure`, `split`: as of single answers."""

    one: str
    other: str
    alike: int
    differing: int
    verdicts: tuple[int, int, int]
    share: Interval
    labels: Interval | None
    judge: Interval | None
    halved_by: int | None
    unsure: int
    split: int


@dataclass(frozen=True, slots=True)
class Labelled:
    """Verdicts of a judge and of people on a run's answers. `judged`: what the judge's verdicts are, correct or
    supported; '' where no judge was asked. `on_answers`, `on_pairs`: the reviewers' agreement on single answers and on
    two; `with_judge`: that of people with the judge; `same_as_judge`: answers that both call right, or wrong. `gone`:
    reviews of answers that are not in the run."""

    judged: str
    methods: tuple[LabelledMethod, ...]
    pairs: tuple[ComparedPair, ...]
    on_answers: ReviewersAgreement
    on_pairs: ReviewersAgreement
    with_judge: ReviewersAgreement
    same_as_judge: int
    gone: int


@dataclass(frozen=True, slots=True)
class Report:
    """One run of an experiment; `primary`: the metric that it is about; `store`: the path of its store; `models`:
    encoders and generators that took part; `paper`: the one whose figures the experiment repeats; `counterparts`:
    ours, where they are of single questions; `pairs`: all pairs of the methods that have the settings `pairwise`;
    `chosen`: settings that were chosen on development questions; `choosing`: the cost of that, None where its run is
    no longer recorded; `differing`: the questions on which methods differ;
    `labelled`: what a judge and people said, None where neither did; `left_out`: optional methods that the index
    cannot serve, with the reason."""

    experiment: str
    run_id: str
    when: datetime
    store: str
    asked: AskedQuestions
    methods: tuple[MethodResult, ...]
    primary: str | None = None
    indexes: tuple[IndexResult, ...] = ()
    models: tuple[str, ...] = ()
    best_alphas: tuple[BestAlpha, ...] = ()
    paper: "Paper | None" = None
    counterparts: "Mapping[Ours, Interval]" = field(default_factory=dict)
    paid: Paid = Paid()
    chosen: Chosen | None = None
    choosing: Paid | None = None
    pairwise: Mapping[str, Any] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    differing: Differing | None = None
    labelled: Labelled | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    def measures(self, method: MethodResult) -> dict[str, MetricSummary]:
        """The method's summaries and its costs per question and of its index; None for a value that is not finite."""
        questions = self.asked.questions
        measures = dict(method.summaries)
        if method.costs and questions:
            keys = {"whole_seconds": STAGE_SECONDS, "whole_usd": STAGE_USD, "paid_usd": PAID_USD}
            for key, column in keys.items():
                total = sum(getattr(cost, key) for cost in method.costs)
                measures[column.name] = MetricSummary(column, total / questions, questions)
        if method.generator == RECORDED:  # what it took here says nothing of the system that answered
            for column, told in ((PAID_USD, ""), (STAGE_SECONDS, "seconds"), (STAGE_USD, "usd")):
                measures.pop(column.name, None)
                if own := method.summaries.get(told):
                    measures[column.name] = replace(own, column=column)
        index = next((index for index in self.indexes if method.name in index.used_by and not index.copied), None)
        if index:
            for column, value in ((INDEX_SECONDS, index.wall_seconds), (INDEX_USD, index.usd)):
                measures[column.name] = MetricSummary(column, value, 0)
        return {
            metric: own
            if own.value is None or math.isfinite(own.value)
            else MetricSummary(own.column, None, own.questions, own.left_out)
            for metric, own in measures.items()
        }

    def baselines(self) -> list[int]:
        """The places of the methods that others are compared with."""
        return sorted({method.against for method in self.methods if method.against is not None})

    def baseline(self) -> str:
        """The label of the baseline, or "its baseline" where there are several."""
        places = self.baselines()
        return self.methods[places[0]].label if len(places) == 1 else "its baseline"

    def metrics(self) -> list[str]:
        """Every metric of any method, in the order in which they first come."""
        return [*dict.fromkeys(metric for method in self.methods for metric in self.measures(method))]

    def value(self, method: MethodResult, metric: str | None) -> float | None:
        """The method's value of a metric, if any."""
        summary = self.measures(method).get(metric) if metric else None
        return summary.value if summary else None

    def values(self, metric: str) -> list[float | None]:
        return [self.value(method, metric) for method in self.methods]

    def column(self, metric: str) -> Column:
        declared = (own.column for method in self.methods if (own := self.measures(method).get(metric)))
        return next(declared, undeclared(metric))

    def has(self, metric: str) -> bool:
        """Return whether any method has a value for it."""
        return any(value is not None for value in self.values(metric))

    def settings(self) -> list[str]:
        """Every setting of any method, in the order in which they first come."""
        return [*dict.fromkeys(key for method in self.methods for key in method.settings)]
