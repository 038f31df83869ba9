"""The contract of a rater: cases in, their judgements out.

Four stages use raters (tasks/rate.py, judge.py): `critique` has a critic, which judges candidate answers; `label` a
labeller, which judges retrieved passages; `appraise` an appraiser, which judges refined contexts; `judge` a judge of
the answers that were chosen. A stage names the scores that it needs and their scale.

A rater knows neither files nor tables. It is made from its `Options`, loads its model in its first `rate`, and keeps
it. No case ends a batch: a case that cannot be judged gets a judgement with an `error`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vitalfew.tasks.models.ticks import Tick, no_tick

NO_ANSWER = "no answer: "
"""How the error of a case begins whose answer is an error itself."""


@dataclass(frozen=True, slots=True)
class RatedContext:
    """A question with a context, and what else is known of the two. A stage fills in what it knows.

    `critique`: `context` is what the prompt had, several contexts with a blank line between them, or empty;
    `answer` was generated from it; `probabilities` are those of the tokens that its generator kept (`self_rag`).
    `label`: `context` is the text of a retrieved passage; all fields from `answers` on are what the data set says.
    `appraise`: `context` is what a refiner made of `hits`, which have their titles.
    `judge`: `answer` was generated from `hits`, the contexts of its prompt; `answers` are the gold answers; `other` is
    the answer to compare it with, whose `hits` are the texts that either was generated from.
    """

    question: str
    context: str = ""
    answer: str = ""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    hits: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    gold_passages: tuple[int, ...] = ()
    gold_titles: tuple[str, ...] = ()
    """Titles of the gold passages that are in the corpus."""
    passage_id: int | None = None
    title: str = ""
    facts: tuple[tuple[int, int], ...] = ()
    """Half-open character ranges of the passage that support the answer."""
    other: "RatedContext | None" = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The scores of a case by their names. `explanation`: the reasons that the rater gave; `error`: why scores are
    missing, or mean nothing."""

    scores: Mapping[str, float] = field(default_factory=dict)
    explanation: str = ""
    error: str = ""

    def __getitem__(self, name: str) -> float:
        """The score of this name, 0 if there is none."""
        return self.scores.get(name, 0.0)

    @property
    def label(self) -> float | None:
        """The label that a labeller gives: `critic`, by which another corrects `rater`, if there is one; None after an
        error."""
        return None if self.error else self.scores.get("critic", self["rater"])


class Rater(ABC):
    """A class with `Options`, which extend the section of its stage (CritiqueConfig, LabelConfig, AppraiseConfig,
    JudgeConfig). A rater without further settings needs none. `version`: raise it when the same case would get other
    scores."""

    version: ClassVar[str] = "1"
    uses_gpu: bool = False
    workers: int | None = None
    """Instances that a machine runs at once: None, one for every core; 1 for a model that uses all cores itself."""

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`. Cheap: raises RaterUnavailable, EngineUnavailable, ConfigError, with
        the remedy, if the model or the library is missing."""
        self.options = options

    def identity(self) -> dict[str, Any]:
        """Everything that a judgement depends on besides the options: the class, its version, checksums of the weights.

        Known without loading the model. {"class": "Embedded", "version": "1", "files": {"adapter.safetensors": "…"}}
        """
        return {"class": type(self).__name__, "version": self.version}

    @abstractmethod
    def rate(self, batch: Sequence[RatedContext], tick: Tick = no_tick) -> list[Judgement]:
        """The judgements of the cases, in their order."""


class RaterUnavailable(ValueError):
    """A rater cannot work here; the message says what is missing and how to provide it."""


def expected(probabilities: Mapping[str, float], values: Mapping[str, float]) -> float | None:
    """The mean of the tokens' values, weighted by their probabilities; None if none of them has a probability."""
    total = sum(probabilities.get(token, 0.0) for token in values)
    if not total > 0:
        return None
    return min(1.0, sum(value * probabilities.get(token, 0.0) for token, value in values.items()) / total)
