"""`core_context`: ParetoRAG's sentence retrieval (arXiv 2502.08178, section 3.2), no deviation in the score."""

from typing import ClassVar

import numpy as np

from configs.schema import Layout, Unit
from tasks.retrievers.base import Vectors


class CoreContext:
    """ParetoRAG: sentences by alpha * core.q + (1 - alpha) * context.q, any alpha on a dual index."""

    unit: ClassVar[Unit] = "sentence"

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def queries(self, questions: Vectors, layout: Layout, index_alpha: float) -> Vectors:
        if layout == "dual":
            return np.concatenate([self.alpha * questions, (1 - self.alpha) * questions], axis=1).astype(np.float32)
        if abs(self.alpha - index_alpha) > 1e-9:
            raise ValueError(
                f"the index is fused at alpha {index_alpha:g} and cannot answer for alpha {self.alpha:g}; "
                "build one that answers every alpha with --set index.layout=dual"
            )
        return questions
