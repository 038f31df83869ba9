"""`passage`: naive dense retrieval of whole passages, the baseline."""

from typing import ClassVar

from configs.schema import Layout, Unit
from tasks.retrievers.base import Vectors


class Passage:
    """Naive RAG: whole passages by the inner product with the question; alpha has no part in it."""

    unit: ClassVar[Unit] = "passage"

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def queries(self, questions: Vectors, layout: Layout, index_alpha: float) -> Vectors:
        return questions
