"""The contract of a retriever: which units it searches, and how a question's vector becomes a query of the index."""

from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from configs.schema import Layout, Unit

Vectors = NDArray[np.float32]


class Retriever(Protocol):
    unit: ClassVar[Unit]

    def __init__(self, alpha: float) -> None: ...

    def queries(self, questions: Vectors, layout: Layout, index_alpha: float) -> Vectors:
        """float32 (n, d) question vectors → float32 (n, width of the index). Raises ValueError where the index
        cannot answer (a fused index of another alpha)."""
        ...
