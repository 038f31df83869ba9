"""The contract of a metric: cases in, one number or none for each case out, under one or several column names.

A case is a question with all that became of it. A metric that a case gives no ground for (no gold answers, nothing
retrieved, no answer) returns None for it: such a case is left out of the mean, and the report says how many were.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from configs.evaluation import ScoreConfig
from tasks.datasets.base import Span


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved unit: a whole passage, or the sentence that `span` is."""

    rank: int
    unit_id: int
    span: Span
    score: float
    text: str


@dataclass(frozen=True, slots=True)
class Context:
    """A context of the prompt. `spans`: the sentences it is of; empty where they are not known."""

    text: str
    tokens: int
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a generator gave: `Generation` without its probabilities, and what it cost (USD)."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    error: str = ""
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """A question and what became of it. `hits` and `contexts` are best first; None: that stage was not run.

    `units`: how many units the index holds (0 without one), for ranks in percent. `answer`: the first of `selected`,
    with what all candidates cost together; `selected`: the answers that were chosen among `candidates`, best first;
    without a choice both hold the one answer.
    """

    question: str
    answers: tuple[str, ...]
    gold_passages: tuple[int, ...]
    supporting_facts: tuple[Span, ...]
    hits: tuple[Hit, ...] | None = None
    contexts: tuple[Context, ...] | None = None
    answer: Answer | None = None
    units: int = 0
    selected: tuple[Answer, ...] = ()
    candidates: tuple[Answer, ...] = ()


Values = Mapping[str, Sequence[float | None]]
"""By column name ("f1", "passage_recall@5"), a value or None for each case, in their order."""


class Summary(NamedTuple):
    """A number for all cases together (None: not one gave ground), and how many of them were left out of it."""

    value: float | None
    left_out: int


def judged(case: Case) -> str | None:
    """The output to hold against the gold answers; None without any of them, or where the generator failed."""
    if not case.answers or case.answer is None or case.answer.error:
        return None
    return case.answer.text


class Metric(Protocol):
    """`corpus`: the metric is of all answers together (MAUVE): `summary` is asked, with every case.

    `version`: raise it when the same case would get another number.
    """

    version: ClassVar[str]
    corpus: ClassVar[bool]
    higher_is_better: ClassVar[bool | None]

    def __init__(self, config: ScoreConfig) -> None: ...

    def score(self, cases: Sequence[Case]) -> Values:
        """Every column, whatever the cases (so that no cases tell the columns); None throughout where `corpus`."""
        ...

    def summary(self, cases: Sequence[Case]) -> Mapping[str, Summary]:
        """Of all cases together; asked only where `corpus`."""
        ...


class PerQuestion:
    """What the metrics of single questions share."""

    version: ClassVar[str] = "1"
    corpus: ClassVar[bool] = False
    higher_is_better: ClassVar[bool | None] = True

    def __init__(self, config: ScoreConfig) -> None:
        self.config = config

    def summary(self, cases: Sequence[Case]) -> Mapping[str, Summary]:
        return {}
