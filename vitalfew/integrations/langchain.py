"""LangChain: a retriever over an index, and a compressor of documents over any refiner."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vitalfew.integrations.shared import best_score, metadata_kept, metadata_of, missing, refined
from vitalfew.library.index import Hits, Index

try:
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise missing("langchain-core", "langchain", error) from error

from pydantic import ConfigDict, Field

if TYPE_CHECKING:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
        Callbacks,
    )


class VitalFewRetriever(BaseRetriever):
    """The best units of an index as Documents, best first; the fields are the options of `Index.search`.

        retriever = VitalFewRetriever(index=store.index("handbook"), max_tokens=300)
        documents = retriever.invoke("Who approves a trip abroad?")

    `max_tokens`: words and punctuation marks of all texts together, at most; `settings`: further ones of the section
    `retrieve`. Metadata: title, passage_id, score, and span ([start, end] in the passage, code points) where it is
    known. The id is the unit's. `invoke` raises InputError, ConfigError, UnknownName, IndexMismatch, Damaged.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: Index
    max_tokens: int | None = None
    top_k: int | None = None
    alpha: float | None = None
    retriever: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(self, query: str, *, run_manager: "CallbackManagerForRetrieverRun") -> list[Document]:
        return _documents(self.index.search(query, **self._options()))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: "AsyncCallbackManagerForRetrieverRun"
    ) -> list[Document]:
        return _documents(await self.index.asearch(query, **self._options()))

    def _options(self) -> dict[str, Any]:
        names = ("max_tokens", "top_k", "alpha", "retriever", "settings")
        return {name: getattr(self, name) for name in names}


class VitalFewCompressor(BaseDocumentCompressor):
    """Documents of any retriever, shortened by a refiner to what a question needs, best first.

        compressor = VitalFewCompressor(refiner="oreo", max_tokens=120)
        shorter = compressor.compress_documents(documents, "Who approves a trip abroad?")

    `refiner`: one of `vitalfew methods`; `max_tokens`: words and punctuation marks of all texts together, at most;
    `settings`: further ones of the section `refine`. A document's title is its metadata's `title`. The metadata of the
    source are kept; of several sources, what they have in common, and the best score. `sources` lists the kept spans:
    {"document": place among those given, "start", "end"} (code points); none where a model rewrote the texts.
    `compress_documents` raises UnknownName, ConfigError, InputError, FileNotFoundError for a missing model.
    """

    model_config = ConfigDict(extra="forbid")

    refiner: str
    max_tokens: int | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: "Callbacks | None" = None
    ) -> list[Document]:
        texts = [document.page_content for document in documents]
        given = [document.metadata for document in documents]
        contexts = refined(self.refiner, query, texts, given, self.max_tokens, self.settings)
        shorter = []
        for context in contexts:
            metadata = metadata_kept(context, given)
            score = best_score(context, [own.get("score") for own in given])
            shorter.append(Document(context.text, metadata=metadata if score is None else {**metadata, "score": score}))
        return shorter


def _documents(hits: Hits) -> list[Document]:
    return [Document(hit.text, id=str(hit.unit_id), metadata={**metadata_of(hit), "score": hit.score}) for hit in hits]
