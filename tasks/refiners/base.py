"""The contract of a refiner: it turns the hits of a batch of questions into the contexts of their prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.encoders import titles
from vitalfew.tasks.models.ticks import Tick
from vitalfew.tasks.refiners.extents import Span


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved text, with its place in its passage (code points, half-open); start = end: a model rewrote it from
    that passage, and it has no place. `sentences`: the places of its sentences, where the refiner needs them;
    `is_gold`: whether its passage is a gold passage of the question, which only an upper bound may look at."""

    title: str
    text: str
    passage_id: int
    start: int
    end: int
    sentences: tuple[Span, ...] = ()
    is_gold: bool = False

    def label(self, options: RefineConfig) -> str:
        """What a prompt shows before the text: its passage's title, if the settings say so and it has one."""
        return titles.lead(self.title) if options.shows_titles else ""

    def shown(self, options: RefineConfig) -> str:
        """What a prompt shows of it where it is passed on whole."""
        return self.label(options) + self.text.strip()


@dataclass(frozen=True, slots=True)
class Evidence:
    """A context of a prompt. `origin`: (passage id, start, end) of its sources; empty if a model rewrote it."""

    text: str
    tokens: int
    origin: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Vectors:
    """Embeddings by one encoder: `questions` float32 (n, d); `hits`, for every question float32 (its hits, d)."""

    questions: NDArray[np.float32]
    hits: Sequence[NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Writing:
    """How a model wrote a question's contexts. `cut`: whether the hits that it was to read did not all fit;
    `finish_reason`: stop, or length where its limit ended the text; empty: it wrote nothing."""

    cut: bool = False
    finish_reason: str = ""


@dataclass(frozen=True, slots=True)
class Refined:
    """The contexts of every question, best first; `tokens` that a model computed; `notes`: counts for the manifest.

    `writings`: one for every question, of a refiner that rewrites; others have none."""

    contexts: list[list[Evidence]]
    tokens: int = 0
    notes: Mapping[str, int] = field(default_factory=dict)
    writings: Sequence[Writing] = ()


class Refiner(Protocol):
    """A class with `Options`, a RefineConfig with the refiner's own settings; the constructor takes an instance.

    `version`: raise it when the same hits would give different contexts; `needs_vectors`: whether `refine` needs the
    vectors of the index; `needs_sentences`: whether it needs the sentences of the hits. The first `refine` loads the
    model, not the constructor; the model then stays loaded.
    """

    version: ClassVar[str]
    uses_gpu: bool
    workers: int | None
    """Instances that a machine runs at once: None, one for every core; 1 for a model that uses all cores itself."""
    needs_vectors: bool
    needs_sentences: bool

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`."""
        ...

    def identity(self) -> dict[str, Any]:
        """Everything that its contexts depend on besides the options in the fingerprint: its model and the model's
        settings. Known without loading the model."""
        ...

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = ...,
    ) -> Refined:
        """The contexts of every question from its hits, best first."""
        ...
