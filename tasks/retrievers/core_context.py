"""`core_context`: ParetoRAG's sentence retrieval (arXiv 2502.08178, section 3.2), no deviation in the score."""

from typing import ClassVar

import numpy as np

from configs.schema import Layout, RetrieveConfig, Unit
from storage.indexes.faiss_types import Vectors
from storage.indexes.topk import Found
from tasks.retrievers.base import Index, Questions


class CoreContext:
    """ParetoRAG: sentences by alpha * core.q + (1 - alpha) * context.q, any alpha on a dual index."""

    version: ClassVar[str] = "1"
    settings: ClassVar[frozenset[str]] = frozenset({"alpha", "nprobe", "ef_search"})
    dense: ClassVar[bool] = True

    unit: Unit = "sentence"

    def __init__(self, request: RetrieveConfig) -> None:
        self.alpha = request.alpha

    def retrieve(self, questions: Questions, index: Index, k: int) -> Found:
        return index.nearest(self.unit, self.queries(questions.vectors, index.layout, index.alpha), k)

    def queries(self, questions: Vectors, layout: Layout, index_alpha: float) -> Vectors:
        """float32 (n, d) question vectors → float32 (n, width of the index). Raises ValueError where the index
        cannot answer (a fused index of another alpha)."""
        if layout == "dual":
            return np.concatenate([self.alpha * questions, (1 - self.alpha) * questions], axis=1).astype(np.float32)
        if abs(self.alpha - index_alpha) > 1e-9:
            raise ValueError(
                f"the index is fused at alpha {index_alpha:g} and cannot answer for alpha {self.alpha:g}; "
                "build one that answers every alpha with --set index.layout=dual"
            )
        return questions
