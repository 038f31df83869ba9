"""`bm25`: keyword retrieval (Robertson & Zaragoza, The Probabilistic Relevance Framework, 2009), in Lucene's form."""

from typing import ClassVar

from pydantic import ConfigDict, Field

from vitalfew.configs.schema import RetrieveConfig, Unit
from vitalfew.storage.indexes import TopK
from vitalfew.tasks.retrievers.base import Index, Questions
from vitalfew.tasks.retrievers.words import words


class BM25:
    """Keyword search: sentences (or passages: retrieve.unit) by BM25, on an index built with bm25.enabled."""

    class Options(RetrieveConfig):
        model_config = ConfigDict(extra="forbid")

        unit: Unit = Field("sentence", description="Unit to search.")

    version: ClassVar[str] = "1"
    dense: ClassVar[bool] = False
    keywords: ClassVar[bool] = True

    def __init__(self, options: Options) -> None:
        self.unit = options.unit

    def check(self, index: Index) -> None:
        """Every index that has the unit can answer."""

    def retrieve(self, questions: Questions, index: Index, k: int) -> TopK:
        return index.matching(self.unit, words(questions.texts), k)
