"""The contract of a retriever: which units it searches, and how it finds the best of them for a batch of questions.

A retriever knows no files: it asks a `SearchIndex` for what is near a vector, or for what shares words with a text.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

from pydantic import Field

from vitalfew.configs.schema import Layout, RetrieveConfig, Unit
from vitalfew.storage.indexes import TopK, Vectors


@dataclass(frozen=True)
class QuestionBatch:
    """A batch of questions; they are encoded when somebody asks for their vectors, float32 (n, d), and once. `names`:
    each one's content id and what its source calls it; none where they were typed."""

    texts: Sequence[str]
    encode: Callable[[Sequence[str]], Vectors]
    names: Sequence[tuple[str, str]] = ()

    @cached_property
    def vectors(self) -> Vectors:
        return self.encode(self.texts)


class DenseOptions(RetrieveConfig):
    """What retrievers by vectors have in common."""

    nprobe: int | None = Field(
        None, ge=1, description="Lists that an ivf index reads; default: the number chosen with the index."
    )
    ef_search: int | None = Field(
        None, ge=1, description="Candidates that an hnsw index looks at; default: the number chosen with the index."
    )


class SearchIndex(Protocol):
    """What can be searched. Both searches raise IndexMismatch, a ValueError, where the index lacks what they need."""

    @property
    def name(self) -> str: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def alpha(self) -> float | None:
        """Of a fused index."""
        ...

    def nearest(self, unit: Unit, queries: Vectors, k: int, nprobe: int | None, ef_search: int | None) -> TopK:
        """The k units of greatest inner product with every query, float32 (n, width of the index)."""
        ...

    def matching(self, unit: Unit, words: Sequence[Sequence[str]], k: int) -> TopK:
        """The k units of greatest BM25 score for every question, given as its words; a unit that shares none
        of them is no match."""
        ...

    def called(self, names: Collection[str]) -> dict[str, tuple[int, int, int]]:
        """Of the passages that their source, or their content id, calls so: id, table shard and row."""
        ...


class Retriever(Protocol):
    """A class that has `Options`, a RetrieveConfig with what can be set of it besides, of which an instance
    constructs it. `dense`: whether it needs the questions' vectors; `keywords`: whether it needs BM25's index; `unit`:
    what it searches, on the class or among its options. The plan reads these without constructing it."""

    version: ClassVar[str]
    dense: ClassVar[bool]
    keywords: ClassVar[bool]
    unit: Unit

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`."""
        ...

    def check(self, index: SearchIndex) -> None:
        """Raises IndexMismatch where the index cannot answer."""
        ...

    def retrieve(self, questions: QuestionBatch, index: SearchIndex, k: int) -> TopK:
        """The k best units of every question."""
        ...
