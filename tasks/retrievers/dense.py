"""Retrieval by vectors: ParetoRAG's sentences (`core_context`), or the baseline's whole passages (`passage`).

`core_context` is ParetoRAG's sentence retrieval (arXiv 2502.08178, section 3.2), with no deviation in the score.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from vitalfew.configs.schema import ALPHA, Layout, Unit
from vitalfew.storage.indexes import TopK, Vectors
from vitalfew.storage.indexes.opened import IndexMismatch, OpenedIndex
from vitalfew.tasks.retrievers.base import DenseOptions, QuestionBatch, Retriever


class DenseRetriever(Retriever):
    """A retriever by vectors."""

    dense: ClassVar[bool] = True
    sharpness: ClassVar[float | None] = 20.0

    def retrieve(self, questions: QuestionBatch, index: OpenedIndex, k: int) -> TopK:
        self.check(index)
        queries = self.queries(questions.vectors, index.layout)
        efforts = self.options.nprobe, self.options.ef_search
        return index.nearest(self.unit, queries, k, *efforts, questions.texts)

    def queries(self, questions: Vectors, layout: Layout) -> Vectors:
        """float32 (n, d) question vectors → float32 (n, width of the index)."""
        return questions


class CoreContext(DenseRetriever):
    """ParetoRAG: sentences by alpha · (core · q) + (1 − alpha) · (context · q); any alpha on a dual index."""

    class Options(DenseOptions, extra="forbid"):
        alpha: float = Field(
            ALPHA, ge=0, le=1, description="Weight of the core vector: score = alpha · core + (1 − alpha) · context."
        )

    unit: Unit = "sentence"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.alpha = options.alpha

    def check(self, index: OpenedIndex) -> None:
        if index.alpha is not None and index.layout == "fused" and abs(self.alpha - index.alpha) > 1e-9:
            raise IndexMismatch(
                f"index {index.name!r} is fused at alpha {index.alpha:g} and cannot answer for alpha {self.alpha:g}; "
                "build one that answers every alpha with --set index.layout=dual"
            )

    def queries(self, questions: Vectors, layout: Layout) -> Vectors:
        if layout == "dual":
            return np.concatenate([self.alpha * questions, (1 - self.alpha) * questions], axis=1).astype(np.float32)
        return questions


class PassageRetriever(DenseRetriever):
    """Naive RAG: whole passages by the inner product with the question; alpha has no effect."""

    class Options(DenseOptions, extra="forbid"):
        pass

    unit: Unit = "passage"
