"""The contract of a metric: cases in, one number or none for every case out, under one or several columns.

A case is a question with all its results. A metric that a case gives no ground for (no gold answers, nothing
retrieved, no answer) returns None for it: such a case is left out of the mean, and the report says how many were.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.tasks.datasets.base import Span
from vitalfew.tasks.generators.base import Stepwise
from vitalfew.tasks.refiners.base import Context as Context  # for the metrics of contexts
from vitalfew.tasks.refiners.base import Hit

Direction = Literal["higher", "lower", "neither"]
"""Which values of a metric are the better ones."""

SCALE = "0 to 1"
"""The unit of shares, probabilities and other numbers between 0 and 1."""

ANSWER, GOLD_ANSWERS, GOLD_PASSAGES = "an answer", "gold answers", "gold passages"
SUPPORTING_FACTS, HITS, CONTEXTS = "supporting facts", "hits", "contexts"
GOLD_SENTENCES = "the gold passages' sentences in the index"
GOLD_TEXTS = "the texts of the gold passages' sentences"
COUNTED = "its tokens, price and time"
STEPS, RATINGS = "a generator that times its steps", "a generator that rates contexts"
LABELS = "labels of the hits' passages"
REFINEMENTS = "an account of its refiner"
APPRAISALS = "an appraisal of its contexts"
LIKELIHOODS = "a language model's likelihood of its gold answer"
VERDICTS = "a judge's verdict on its answer"
PREFERENCES = "a judge's preference between its answer and the baseline's"
"""The needs of metrics, as messages name it; a user's metric may need something else."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a metric: what a report, a plot and SQL say of it.

    `name`: in the tables ("passage_recall@5"); `heading`: for people; `unit`: of its values (COUNTED_UNITS in
    tasks/reports/shown/columns.py are shown with one decimal, others with three); `direction`: the better values;
    `needs`: what a question has to have, else it is left out; `detail`: reports show it only where they show every
    metric.
    """

    name: str
    heading: str
    unit: str = SCALE
    direction: Direction = "higher"
    needs: tuple[str, ...] = ()
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Refinement:
    """The refining of a question's hits: lengths in words and punctuation marks, and the time; `cpu_seconds`: of all
    processors."""

    input_tokens: int
    output_tokens: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Answer(Stepwise):
    """A generator's completion, with the price of its tokens (USD), and how many contexts it was written from (`kept`;
    None: not known). `ratings` have the contexts' ranks. `unknown`: fields that another system, which gave the answer,
    does not say; they are 0."""

    usd: float | None = 0.0
    unknown: tuple[str, ...] = ()
    kept: int | None = None

    def told(self, name: str) -> float | None:
        """A count or a time; None where it is not known."""
        return None if name in self.unknown else getattr(self, name)


@dataclass(frozen=True, slots=True)
class Case:
    """A question with its results. `hits` and `contexts` are best first; None: that stage was not run.

    `answer`: the first of `selected`, with what all candidates cost together; `selected`: the answers that were chosen
    among `candidates`, best first; without a choice both hold the one answer. `gold_sentences`: by gold passage, the
    words of its sentences, where a metric needs GOLD_SENTENCES; `gold_texts`: their texts, where one needs GOLD_TEXTS.
    `labels`: passages with their labels. `refinement`: where a metric needs REFINEMENTS and it was written down.
    `given`: the refiner's input where that is not `hits`; `appraisal`: faithfulness and completeness of the contexts;
    `likelihood`: the logarithm of the gold answer's probability (nats), and its tokens; `verdict`: a judge's on the
    answer: correct, supported and preferred, None for what is not known.
    """

    question: str
    answers: tuple[str, ...]
    gold_passages: tuple[int, ...]
    supporting_facts: tuple[Span, ...]
    hits: tuple[Hit, ...] | None = None
    contexts: tuple[Context, ...] | None = None
    answer: Answer | None = None
    selected: tuple[Answer, ...] = ()
    candidates: tuple[Answer, ...] = ()
    gold_sentences: tuple[tuple[int, ...], ...] = ()
    labels: tuple[tuple[int, float], ...] = ()
    refinement: Refinement | None = None
    given: tuple[Hit, ...] | None = None
    appraisal: tuple[float, float] | None = None
    likelihood: tuple[float, int] | None = None
    verdict: tuple[float | None, float | None, float | None] | None = None
    gold_groups: tuple[int, ...] = ()
    gold_grades: tuple[int, ...] = ()
    gold_texts: tuple[tuple[str, ...], ...] = ()

    def grades(self) -> dict[int, int]:
        """How relevant the groups of gold passages are: as the most relevant of their passages, from 1."""
        grades: dict[int, int] = {}
        for group, grade in zip(self.gold().values(), self.gold_grades or [1] * len(self.gold_passages), strict=True):
            grades[group] = max(grade, grades.get(group, 0))
        return grades

    def gold(self) -> dict[int, int]:
        """The gold passages, with the numbers of their groups."""
        return dict(zip(self.gold_passages, self.gold_groups or range(len(self.gold_passages)), strict=True))


Values = Mapping[str, Sequence[float | None]]
"""By column name ("f1", "passage_recall@5"), a value or None for every case, in their order."""


class Summary(NamedTuple):
    """A number for all cases together (None: not one gave ground), and how many of them were left out of it."""

    value: float | None
    left_out: int


def judged(case: Case) -> str | None:
    """The output to hold against the gold answers; None without any of them, or where the generator failed."""
    if not case.answers or case.answer is None or case.answer.error:
        return None
    return case.answer.text


class MetricOptions(ScoreConfig, extra="forbid"):
    """Options of a metric without any."""


class RankOptions(MetricOptions):
    """The ranks of metrics of the first k hits."""

    k: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (1, 5, 10), min_length=1, description="Ranks k of recall@k and nDCG@k."
    )


class Metric(ABC):
    """The base of metrics. `shown` declares the columns, or the method `columns` does where they depend on options.

    `Options`: a ScoreConfig with the metric's settings; `version`: raise it when the same case would get other numbers.
    A metric that asks a model has a method `identity`: checksums of the model's files, device, precision.
    """

    Options: ClassVar[type[ScoreConfig]] = MetricOptions
    version: ClassVar[str] = "1"
    corpus: ClassVar[bool] = False
    """The metric is of all answers together: `summary` is asked, with every case."""
    shown: ClassVar[tuple[Column, ...]]

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`."""
        self.options = options

    def columns(self) -> Sequence[Column]:
        """The columns in the order of the report, the same whatever the cases."""
        return self.shown

    @abstractmethod
    def score(self, cases: Sequence[Case]) -> Values:
        """The values of every column, whatever the cases; None throughout where `corpus`."""

    def summary(self, cases: Sequence[Case]) -> Mapping[str, Summary]:
        """The figures of all cases together; asked only where `corpus`."""
        return {}


class PerQuestion(Metric):
    """A metric of single questions: it has `row`, or another `score` where cases are scored together."""

    def row(self, case: Case) -> Sequence[float | None] | None:
        """A value for every column; None where the case gives no ground for any."""
        raise NotImplementedError

    def score(self, cases: Sequence[Case]) -> Values:
        rows = [self.row(case) for case in cases]
        columns = enumerate(self.columns())
        return {column.name: [None if row is None else row[place] for row in rows] for place, column in columns}


class OfAllAnswers(Metric):
    """A metric of all answers together."""

    corpus: ClassVar[bool] = True

    def score(self, cases: Sequence[Case]) -> Values:
        return {column.name: [None] * len(cases) for column in self.columns()}

    @abstractmethod
    def figures(self, cases: Sequence[Case]) -> tuple[Sequence[float | None], int]:
        """A figure for every column, and how many cases are left out."""

    def summary(self, cases: Sequence[Case]) -> Mapping[str, Summary]:
        figures, left_out = self.figures(cases)
        return {column.name: Summary(value, left_out) for column, value in zip(self.columns(), figures, strict=True)}
