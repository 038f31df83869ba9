"""The contract of a retriever: which units it searches, and how it finds the best of them for a batch of questions.

A retriever knows no files: it asks an `OpenedIndex` for what is near a vector, or for what shares words with a text.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from vitalfew.configs.schema import RetrieveConfig, Unit
from vitalfew.storage.indexes import NOTHING, TopK, Vectors
from vitalfew.storage.indexes.opened import OpenedIndex

WITHOUT_HITS = "without_hits"
"""Note of a shard of `hits`: the number of its questions for which nothing was retrieved."""


@dataclass(frozen=True)
class QuestionBatch:
    """A batch of questions. Their vectors, float32 (n, d), are `known`, or encoded once, at the first use. `names`:
    content id and name in the source, question by question; empty for typed questions. `encode` takes other texts, too.
    """

    texts: Sequence[str]
    encode: Callable[[Sequence[str]], Vectors]
    names: Sequence[tuple[str, str]] = ()
    known: Vectors | None = None

    def parts(self, size: int) -> "list[QuestionBatch]":
        """The batch in parts of so many questions."""
        return [
            QuestionBatch(self.texts[at], self.encode, self.names[at], None if self.known is None else self.known[at])
            for at in (slice(start, start + size) for start in range(0, len(self.texts), size))
        ] or [self]

    @cached_property
    def vectors(self) -> Vectors:
        return self.encode(self.texts) if self.known is None else self.known


class DenseOptions(RetrieveConfig):
    """The settings of retrievers by vectors."""

    nprobe: int | None = Field(
        None, ge=1, description="Lists that an ivf index reads; default: the number chosen with the index."
    )
    ef_search: int | None = Field(
        None, ge=1, description="Candidates that an hnsw index looks at; default: the number chosen with the index."
    )


Scored = tuple[float, tuple[int, int, int]]
"""A unit with its score: id, table shard and row."""


def top_of(best: Sequence[Sequence[Scored]], k: int) -> TopK:
    """The first k units of every question."""
    places = np.full((len(best), k, 3), NOTHING, np.int64)
    scores = np.full((len(best), k), -np.inf, np.float32)
    for question, units in enumerate(best):
        for rank, (score, place) in enumerate(units[:k]):
            scores[question, rank], places[question, rank] = score, place
    return TopK(places[..., 0], scores, places[..., 1], places[..., 2])


class Retriever(ABC):
    """A class that has `Options`, a RetrieveConfig with what can be set of it besides, of which an instance constructs
    it. The plan reads the attributes without constructing it."""

    version: ClassVar[str] = "1"
    dense: ClassVar[bool] = False
    """It needs the questions' vectors."""
    keywords: ClassVar[bool] = False
    """It needs BM25's index."""
    unit: Unit
    """The unit that it searches: on the class, or among its options."""
    sharpness: ClassVar[float | None] = None
    """The scale of its scores: score · sharpness is the logarithm of the likelihood that a unit answers, up to a
    constant of the question. None: the scores have no scale, and ranks count in their place (tasks/refiners/base.py).

    Where the gold passages of 200 questions each of SQuAD and NQ are likeliest, cosines have 28 to 40, BM25 1 to 1.5,
    and ranks a power of 2 to 3. What stands here is about two thirds of that, as a refiner that is too sure stops too
    early."""

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`."""
        self.options = options

    def check(self, index: OpenedIndex) -> None:
        """Raises IndexMismatch where the index cannot answer."""

    def fault(self, names: Sequence[str], texts: Sequence[str]) -> str:
        """Say what to mend where it has found nothing for any question; '' where that may be. Of some of the questions
        it is given the names in their source, and the texts."""
        return ""

    @abstractmethod
    def retrieve(self, questions: QuestionBatch, index: OpenedIndex, k: int) -> TopK:
        """The k best units of every question. Raises IndexMismatch where the index lacks what they need."""
