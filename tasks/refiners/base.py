"""The contract of a refiner, which turns the hits of a batch of questions into the contexts of their prompts; and the
contexts as they grow: parts of hits under their titles, within a budget.

`refine.group` says what shares a context. `apart`: every hit is one, and pays for its title. `passage`: all that is
taken of a passage is one, at the place of its best part: its title once, its parts in reading order, neighbours as they
are in the passage, gaps as " … ". The mark of a gap costs a token; what a context has already costs nothing. A text
that a model wrote has no place in its passage and stays apart.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.encoders import titles
from vitalfew.tasks.models.ticks import Tick, Watched, no_tick
from vitalfew.tasks.splitters.tokens import count_tokens, count_words, first

STOPPED = "stopped"
"""The note on how many questions got less than there was room for, because a refiner was sure enough."""
GAP = " … "

Span = tuple[int, int]
"""A half-open range of characters in a passage."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved text, with its place in its passage (code points, half-open); start = end: a model rewrote it from
    that passage, and it has no place. `sentences`: the places of its sentences, where the refiner needs them;
    `is_gold`: whether its passage is a gold passage of the question, which only an upper bound may look at; `score`:
    the retriever's, or that of a refiner that scored it again; `log_likelihood`: what the score says of it in
    comparison with the question's other hits, whatever its scale (`likelihood`); None: the score says it as it is."""

    title: str
    text: str
    passage_id: int
    start: int
    end: int
    sentences: tuple[Span, ...] = ()
    is_gold: bool = False
    score: float = 0.0
    log_likelihood: float | None = None

    @property
    def known(self) -> float:
        """The logarithm of the likelihood that it answers, up to a constant of the question."""
        return self.score if self.log_likelihood is None else self.log_likelihood

    def label(self, options: RefineConfig) -> str:
        """The passage's title as a prompt shows it before the text; empty unless the settings show titles."""
        return titles.lead(self.title) if options.shows_titles else ""

    @property
    def titled(self) -> str:
        """The text with its passage's title before it, as models read it that always read titles."""
        return titles.lead(self.title) + self.text

    def shown(self, options: RefineConfig) -> str:
        """The whole hit as a prompt shows it."""
        return self.label(options) + self.text.strip()


def likelihood(score: float, rank: int, sharpness: float | None) -> float:
    """The logarithm of the likelihood that a hit answers, up to a constant of the question. `rank`: from 1;
    `sharpness`: of its retriever; without one, a hit is as likely as 1 / rank²."""
    return -2 * math.log(rank) if sharpness is None else sharpness * score


Retrieved = Sequence[Sequence[Hit]]
"""The hits of every question, best first."""


@dataclass(frozen=True, slots=True)
class Context:
    """A context of a prompt. `origin`: (passage id, start, end) of its sources; empty if a model rewrote it. `score`:
    the best of the hits that it comes from; None for one that a model wrote from several. `sentences`: (passage id,
    start, end) of the parts of its sentences that it shows, for metrics; empty where they are not known."""

    text: str
    tokens: int
    origin: tuple[tuple[int, int, int], ...] = ()
    score: float | None = None
    sentences: tuple[tuple[int, int, int], ...] = ()

    @property
    def passages(self) -> tuple[int, ...]:
        """The passages that it comes from."""
        return tuple(dict.fromkeys(passage for passage, _, _ in self.origin))


class Budget:
    """The words and tokens that max_words and max_tokens still allow for a question; None: any number."""

    def __init__(self, options: RefineConfig) -> None:
        self.words, self.tokens = options.max_words, options.max_tokens

    def take(self, text: str) -> str:
        """Spend the budget on the longest start of a text that it allows, and return that start."""
        taken = first(text, self.words, self.tokens)
        self.words = None if self.words is None else self.words - count_words(taken)
        self.tokens = None if self.tokens is None else self.tokens - count_tokens(taken)
        return taken

    def holds(self, texts: Sequence[str]) -> bool:
        """Whether the budget allows all of the texts together."""
        limits = ((self.words, count_words), (self.tokens, count_tokens))
        return all(most is None or sum(map(count, texts)) <= most for most, count in limits)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Join adjacent and overlapping ones of ascending spans, and leave out empty ones."""
    runs: list[Span] = []
    for start, end in spans:
        if runs and start <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(end, runs[-1][1])
        elif start < end:
            runs.append((start, end))
    return runs


class Contexts:
    """The contexts of one question, in the order in which their first parts are added.

    `gap`: stands between parts that do not adjoin; a blank only after a part without white space at its end."""

    def __init__(self, options: RefineConfig, gap: str = GAP) -> None:
        self.options, self.gap = options, gap
        self.budget = Budget(options)
        self.parts: dict[Hashable, list[Hit]] = {}
        self.hits: dict[Hashable, int] = {}

    def add(self, hit: Hit, number: int) -> bool:
        """Add what the budget takes of a hit; return whether that is all of it.

        Hits with the same number share a context, and with `group=passage` those of the same passage."""
        key = (hit.passage_id,) if self.options.group == "passage" and hit.start < hit.end else number
        beside = self.parts.get(key, [])
        if not hit.text.strip() or any(other.start <= hit.start < hit.end <= other.end for other in beside):
            return True
        adjoins = any(other.start <= hit.end and hit.start <= other.end for other in beside)
        before = hit.label(self.options) if not beside else "" if adjoins else self.gap.lstrip()
        text = before + hit.text.strip()
        if any(hit.start < other.start <= hit.end for other in beside) and not self.budget.holds([text]):
            self.budget.take(self.gap)  # cut, it no longer reaches the part after it
        shown = self.budget.take(text)
        whole = len(shown) == len(text)
        if len(shown) > len(before):
            self.hits[key] = min(number, self.hits.get(key, number))
            self.parts.setdefault(key, []).append(hit if whole else beginning(hit, shown[len(before) :]))
        return whole

    def made(self, by_hit: bool = False) -> list[Context]:
        """The contexts so far; with `by_hit` in the order of their best hits."""
        keys = sorted(self.parts, key=self.hits.__getitem__) if by_hit else self.parts
        return [self._joined(sorted(self.parts[key], key=attrgetter("start"))) for key in keys]

    def _joined(self, parts: Sequence[Hit]) -> Context:
        text, end = "", parts[0].start
        for hit in parts:
            text = text + hit.text[end - hit.start :] if hit.start <= end else self._gapped(text) + hit.text
            end = max(end, hit.end)
        shown = parts[0].label(self.options) + text.strip()
        origin = ((parts[0].passage_id, *span) for span in merged((part.start, part.end) for part in parts))
        return Context(shown, count_tokens(shown), tuple(origin), max(part.score for part in parts))

    def _gapped(self, text: str) -> str:
        if self.gap.isspace():
            return text if text[-1:].isspace() else text + self.gap
        return text.rstrip() + self.gap


def beginning(hit: Hit, text: str) -> Hit:
    """A hit cut down to `text`, with which it begins but for white space."""
    if hit.start == hit.end:
        return replace(hit, text=text)
    start = hit.start + hit.text.index(text)
    return replace(hit, text=text, start=start, end=start + len(text))


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

    `writings`: one for every question, of a refiner that rewrites; empty for others."""

    contexts: list[list[Context]]
    tokens: int = 0
    notes: Mapping[str, int] = field(default_factory=dict)
    writings: Sequence[Writing] = ()


class Refiner(ABC):
    """The base of refiners. `Options`: a RefineConfig with the refiner's further settings.

    The first `refine` loads the model, not the constructor; the model then stays loaded.
    """

    class Options(RefineConfig, extra="forbid"):
        pass

    version: ClassVar[str] = "1"
    """Raise it when the same hits would give different contexts."""
    uses_gpu: bool = False
    workers: int | None = None
    """Instances that a machine runs at once: None, one for every core; 1 for a model that uses all cores itself."""
    needs_vectors: bool = False
    """`refine` needs the vectors of the index. Where that depends on the options, they have such a property too: it is
    asked before the refiner is constructed."""
    needs_sentences: bool = False
    """`refine` needs the sentences of the hits. As `needs_vectors`."""
    compares_scores: bool = False
    """`refine` reads the hits' likelihoods, so that its contexts depend on the scale of the retriever's scores."""
    cut: "Refiner | None" = None
    """The refiner that limits the hits that this one passes on, if it does not limit them itself."""

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`."""
        self.options = options

    def identity(self) -> dict[str, Any]:
        """Everything that its contexts depend on besides the options in the fingerprint: its model and the model's
        settings. Known without loading the model."""
        cut = {"cut": self.cut.identity()} if self.cut else {}
        return {"class": type(self).__name__, "version": self.version, **cut}

    @abstractmethod
    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        """The contexts of every question from its hits, best first."""


class ModelRefiner(Refiner):
    """Base of refiners that one model serves: it has `uses_gpu`, `workers` and `identity`, and loads no weights when it
    is made. A subclass makes the model, and asks it in `refine`."""

    role: ClassVar[str] = "model"
    """The key of the model in the identity."""

    def __init__(self, options: Any, model: Any) -> None:
        super().__init__(options)
        self.model = model
        self.uses_gpu, self.workers = model.uses_gpu, model.workers

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), self.role: self.model.identity()}


RequestT = TypeVar("RequestT", bound=Hashable)
AnswerT = TypeVar("AnswerT")


def answered(
    requests: Sequence[Sequence[RequestT]], read: Callable[[Sequence[RequestT], Tick], Sequence[AnswerT]], tick: Tick
) -> tuple[dict[RequestT, AnswerT], int]:
    """The answers of a model to the requests of all questions, and the tokens computed; equal ones are read once."""
    distinct = [*dict.fromkeys(chain(*requests))]
    watched = Watched(tick, len(requests), len(distinct))
    answers = read(distinct, watched)
    watched.finish()
    return dict(zip(distinct, answers, strict=True)), watched.tokens
