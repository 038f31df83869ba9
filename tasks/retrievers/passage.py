"""`passage`: naive dense retrieval of whole passages, the baseline."""

from typing import ClassVar

from configs.schema import RetrieveConfig, Unit
from storage.indexes.topk import Found
from tasks.retrievers.base import Index, Questions


class Passage:
    """Naive RAG: whole passages by the inner product with the question; alpha has no part in it."""

    version: ClassVar[str] = "1"
    settings: ClassVar[frozenset[str]] = frozenset({"nprobe", "ef_search"})
    dense: ClassVar[bool] = True

    unit: Unit = "passage"

    def __init__(self, request: RetrieveConfig) -> None:
        """Nothing in a request concerns it."""

    def retrieve(self, questions: Questions, index: Index, k: int) -> Found:
        return index.nearest(self.unit, questions.vectors, k)
