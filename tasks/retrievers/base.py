"""The contract of a retriever: which units it searches, and how it finds the best of them for a batch of questions.

A retriever knows no files: it asks an `Index` for what is near a vector, or for what shares words with a text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

from configs.schema import Layout, RetrieveConfig, Unit
from storage.indexes.faiss_types import Vectors
from storage.indexes.topk import Found


@dataclass(frozen=True)
class Questions:
    """A batch of questions; they are encoded when somebody asks for their vectors, float32 (n, d), and once."""

    texts: Sequence[str]
    encode: Callable[[Sequence[str]], Vectors]

    @cached_property
    def vectors(self) -> Vectors:
        return self.encode(self.texts)


class Index(Protocol):
    """What can be searched. Both searches raise IndexMismatch, a ValueError, where the index lacks what they need."""

    @property
    def layout(self) -> Layout: ...

    @property
    def alpha(self) -> float: ...

    def nearest(self, unit: Unit, queries: Vectors, k: int) -> Found:
        """The k units of greatest inner product with each query, float32 (n, width of the index)."""
        ...

    def matching(self, unit: Unit, texts: Sequence[str], k: int) -> Found:
        """The k units of greatest BM25 score for each text; a unit that shares no word with it is not found."""
        ...


class Retriever(Protocol):
    """`settings`: what of a request concerns it, besides top_k; `dense`: whether it needs the questions' vectors."""

    version: ClassVar[str]
    settings: ClassVar[frozenset[str]]
    dense: ClassVar[bool]
    unit: Unit

    def __init__(self, request: RetrieveConfig) -> None: ...

    def retrieve(self, questions: Questions, index: Index, k: int) -> Found:
        """The k best units of each question."""
        ...
