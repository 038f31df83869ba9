"""`passage`: naive dense retrieval of whole passages, the baseline."""

from typing import ClassVar

from pydantic import ConfigDict

from vitalfew.configs.schema import Unit
from vitalfew.storage.indexes import TopK
from vitalfew.tasks.retrievers.base import DenseOptions, Index, Questions


class PassageRetriever:
    """Naive RAG: whole passages by the inner product with the question; alpha has no effect."""

    class Options(DenseOptions):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str] = "1"
    dense: ClassVar[bool] = True
    keywords: ClassVar[bool] = False

    unit: Unit = "passage"

    def __init__(self, options: DenseOptions) -> None:
        self.options = options

    def check(self, index: Index) -> None:
        """Every index that has the unit can answer."""

    def retrieve(self, questions: Questions, index: Index, k: int) -> TopK:
        return index.nearest(self.unit, questions.vectors, k, self.options.nprobe, self.options.ef_search)
