"""Haystack: a retriever over an index, and a refiner of documents. Both can be saved with their pipeline."""

import asyncio
from collections.abc import Mapping
from typing import Any

from vitalfew.integrations.shared import best_score, metadata_kept, metadata_of, missing, refined
from vitalfew.library.index import Index
from vitalfew.library.store import Store

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise missing("haystack-ai", "haystack", error) from error


@component
class VitalFewRetriever:
    """The best units of an index as Documents with scores, best first. In: `query`; out: `documents`.

        retriever = VitalFewRetriever(store.index("handbook"), max_tokens=300)
        documents = retriever.run(query="Who approves a trip abroad?")["documents"]

    The options are those of `Index.search`. `max_tokens`: words and punctuation marks of all texts together, at most.
    A document's id is the unit's. Its meta: title, passage_id, and span ([start, end] in the passage, code points)
    where it is known. A saved pipeline names the store and the index. `run` raises InputError, ConfigError,
    UnknownName, IndexMismatch, Damaged.
    """

    def __init__(
        self,
        index: Index,
        max_tokens: int | None = None,
        top_k: int | None = None,
        alpha: float | None = None,
        retriever: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`settings`: further ones of the section `retrieve`."""
        self.index = index
        settings = None if settings is None else dict(settings)
        own = dict(max_tokens=max_tokens, top_k=top_k, alpha=alpha, retriever=retriever, settings=settings)
        self.options: dict[str, Any] = own

    @component.output_types(documents=list[Document])
    def run(self, query: str, max_tokens: int | None = None, top_k: int | None = None) -> dict[str, list[Document]]:
        """Search; `max_tokens` and `top_k` take precedence over the component's own."""
        given = {"max_tokens": max_tokens, "top_k": top_k}
        options = {**self.options, **{key: value for key, value in given.items() if value is not None}}
        hits = self.index.search(query, **options)
        documents = [
            Document(id=str(hit.unit_id), content=hit.text, meta=metadata_of(hit), score=hit.score) for hit in hits
        ]
        return {"documents": documents}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, max_tokens: int | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """`run` in a thread, for an event loop."""
        return await asyncio.to_thread(self.run, query, max_tokens, top_k)

    def to_dict(self) -> dict[str, Any]:
        """The settings, and the names of store and index, for a saved pipeline."""
        place = {"store": str(self.index.store), "name": self.index.name}
        return default_to_dict(self, index=place, **self.options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "VitalFewRetriever":
        """Opens the index that a saved pipeline names. Raises IndexNotFound."""
        place = data["init_parameters"]["index"]
        index = Store(place["store"]).index(place["name"])
        return default_from_dict(cls, {**data, "init_parameters": {**data["init_parameters"], "index": index}})


@component
class VitalFewRefiner:
    """Documents of any retriever, shortened by a refiner to what a question needs, best first. In: `query` and
    `documents`; out: `documents`.

        refiner = VitalFewRefiner("oreo", max_tokens=120)
        shorter = refiner.run(query="Who approves a trip abroad?", documents=documents)["documents"]

    `refiner`: one of `vitalfew methods`; `max_tokens`: words and punctuation marks of all texts together, at most;
    `settings`: further ones of the section `refine`. A document's title is its meta's `title`. The meta of the source
    are kept; of several sources, what they have in common, and the best score. `sources` lists the kept spans:
    {"document": place among those given, "start", "end"} (code points); none where a model rewrote the texts. `run`
    raises UnknownName, ConfigError, InputError, FileNotFoundError for a missing model.
    """

    def __init__(self, refiner: str, max_tokens: int | None = None, settings: Mapping[str, Any] | None = None) -> None:
        """The model is loaded by the first question."""
        self.refiner, self.max_tokens, self.settings = refiner, max_tokens, dict(settings or {})

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document], max_tokens: int | None = None) -> dict[str, list[Document]]:
        """Refine; `max_tokens` takes precedence over the component's own."""
        texts, given = [each.content for each in documents], [each.meta for each in documents]
        most, scores = self.max_tokens if max_tokens is None else max_tokens, [each.score for each in documents]
        contexts = refined(self.refiner, query, texts, given, most, self.settings)
        shorter = [
            Document(content=each.text, meta=metadata_kept(each, given), score=best_score(each, scores))
            for each in contexts
        ]
        return {"documents": shorter}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, documents: list[Document], max_tokens: int | None = None
    ) -> dict[str, list[Document]]:
        """`run` in a thread, for an event loop."""
        return await asyncio.to_thread(self.run, query, documents, max_tokens)

    def to_dict(self) -> dict[str, Any]:
        """The settings, for a saved pipeline."""
        return default_to_dict(self, refiner=self.refiner, max_tokens=self.max_tokens, settings=self.settings)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "VitalFewRefiner":
        return default_from_dict(cls, data)
