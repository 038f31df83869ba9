"""The contract of a writer: passages in, for every one a question or the reason why there is none.

A writer knows neither files nor tables. It is made from its `Options`, loads its model in its first `write`, and keeps
it. No passage ends a batch, whatever is in it. That no question is like another is the stage's concern
(tasks/write.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vitalfew.tasks.models.ticks import Tick, no_tick


@dataclass(frozen=True, slots=True)
class GivenPassage:
    """A passage to write a question from. `sentences`: they join to its text; empty unless the writer needs them.
    `partner`: a second passage; None unless the writer needs partners, and where there is none. `shared`: of a
    partner, the name or number that it has in common with the first one."""

    passage_id: int
    title: str
    text: str
    sentences: tuple[str, ...] = ()
    partner: "GivenPassage | None" = None
    shared: str = ""


@dataclass(frozen=True, slots=True)
class WrittenQuestion:
    """A question with its answer and the `quote` that answers it: letter by letter, but for white space. Both are empty
    if the question is to have no answer. `kind`: what it asks for, such as name, year, who, why. `gold`: where it takes
    several passages, a quote from every one by its id."""

    text: str
    answer: str
    quote: str
    kind: str
    gold: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a passage gives no question: a key of REASONS, and `detail` for people."""

    reason: str
    detail: str = ""


REASONS = {
    "no_sentence": "no sentence of the passage is prose of a suitable length: it is code, a table, a list, or too "
    "short",
    "no_name_or_number": "no sentence has a name or number that appears in it exactly once",
    "no_reply": "the model gave no reply: an error, or an empty text",
    "not_in_form": "the reply is not a JSON object with the fields that were asked for",
    "no_question": "the model had nothing to ask",
    "quote_not_in_passage": "the quote is not in the passage, letter by letter",
    "answer_not_in_quote": "the answer is not in the quote",
    "gives_away": "the question has a word of its answer",
    "copied": "the question has too many words in a row from the passage",
    "not_answered": "the model does not find the answer when it has the passage",
    "known_without": "the model gives the answer without the passage",
    "one_passage_suffices": "the model answers a question of two hops from one of its passages alone",
    "answered": "the model finds an answer to a question that should have none",
    "like_another": "an earlier question is the same, or has nearly the same words",
}
"""Every reason for which a passage gives no question."""


class Writer(ABC):
    """A class with `Options`, a WriteConfig with the writer's further settings; a writer without any needs none.
    `version`: raise it when the same passage would give another question."""

    version: ClassVar[str] = "1"
    needs_sentences: ClassVar[bool] = False
    """Its passages are to come with their sentences."""
    needs_partners: bool = False
    """Its passages are to come with a partner, where there is one."""
    measures: ClassVar[str] = "retrieval and answers"
    """Words that say what its questions can measure."""
    uses_gpu: bool = False
    workers: int | None = None
    """Instances that a machine runs at once: None, one for every core; 1 for a model that uses all cores itself."""

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`. Cheap: raises EngineUnavailable, ConfigError, with the remedy, if
        the model or the library is missing."""
        self.options = options

    def identity(self) -> dict[str, Any]:
        """Everything that a question depends on besides the options: the class, its version, the model."""
        return {"class": type(self).__name__, "version": self.version}

    def tokens(self, characters: float) -> float:
        """The tokens that a question takes, for a quote, by the length of its passage; 0 without a model."""
        return 0.0

    @abstractmethod
    def write(self, passages: Sequence[GivenPassage], tick: Tick = no_tick) -> list[WrittenQuestion | Refusal]:
        """A question of every passage, in their order, or why there is none."""
