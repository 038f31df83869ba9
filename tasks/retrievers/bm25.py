"""`bm25`: keyword retrieval (Robertson & Zaragoza, The Probabilistic Relevance Framework, 2009), in Lucene's form."""

from typing import ClassVar

from configs.schema import RetrieveConfig
from storage.indexes.topk import Found
from tasks.retrievers.base import Index, Questions


class BM25:
    """Keywords: sentences (or passages: retrieve.unit) by BM25, on an index built with bm25.enabled."""

    version: ClassVar[str] = "1"
    settings: ClassVar[frozenset[str]] = frozenset({"unit"})
    dense: ClassVar[bool] = False

    def __init__(self, request: RetrieveConfig) -> None:
        self.unit = request.unit

    def retrieve(self, questions: Questions, index: Index, k: int) -> Found:
        return index.matching(self.unit, questions.texts, k)
