"""LlamaIndex: a retriever over an index, and a node postprocessor over any refiner."""

from collections.abc import Mapping
from typing import Any

from vitalfew.integrations.shared import UNPROMPTED, best_score, metadata_kept, metadata_of, missing, places, refined
from vitalfew.library.index import Hits, Index
from vitalfew.tasks.datasets.base import InputError

try:
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import (
        MetadataMode,
        NodeRelationship,
        NodeWithScore,
        QueryBundle,
        RelatedNodeInfo,
        TextNode,
    )
except ImportError as error:
    raise missing("llama-index-core", "llama-index", error) from error

from pydantic import ConfigDict, Field


class VitalFewRetriever(BaseRetriever):
    """The best units of an index as nodes with scores, best first.

        retriever = VitalFewRetriever(store.index("handbook"), max_tokens=300)
        nodes = retriever.retrieve("Who approves a trip abroad?")

    The options are those of `Index.search`. `max_tokens`: words and punctuation marks of all texts together, at most.
    A node's id is the unit's, its source the passage's. Metadata: title, passage_id, and span ([start, end] in the
    passage, code points) where it is known; prompts show the title alone. `retrieve` raises InputError, ConfigError,
    UnknownName, IndexMismatch, Damaged.
    """

    def __init__(
        self,
        index: Index,
        *,
        max_tokens: int | None = None,
        top_k: int | None = None,
        alpha: float | None = None,
        retriever: str | None = None,
        settings: Mapping[str, Any] | None = None,
        **base: Any,
    ) -> None:
        """`settings`: further ones of the section `retrieve`; `base`: arguments of LlamaIndex's BaseRetriever."""
        super().__init__(**base)
        self.index = index
        own = dict(max_tokens=max_tokens, top_k=top_k, alpha=alpha, retriever=retriever, settings=settings)
        self.options: dict[str, Any] = own

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self.index.search(query_bundle.query_str, **self.options))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self.index.asearch(query_bundle.query_str, **self.options))


class VitalFewPostprocessor(BaseNodePostprocessor):
    """Nodes of any retriever, shortened by a refiner to what a question needs, best first.

        postprocessor = VitalFewPostprocessor(refiner="oreo", max_tokens=120)
        shorter = postprocessor.postprocess_nodes(nodes, query_str="Who approves a trip abroad?")

    `refiner`: one of `vitalfew methods`; `max_tokens`: words and punctuation marks of all texts together, at most,
    without the metadata that prompts show; `settings`: further ones of the section `refine`. A node's title is its
    metadata's `title`. Metadata and relationships of the source are kept; of several sources, the metadata that they
    have in common, and the best score. `sources` lists the kept spans: {"document": place among those given, "start",
    "end"} (code points); none where a model rewrote the texts. `postprocess_nodes` raises UnknownName, ConfigError,
    InputError, FileNotFoundError for a missing model.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    refiner: str
    max_tokens: int | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def class_name(cls) -> str:
        return "VitalFewPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("nodes are refined for a question: give query_bundle or query_str")
        texts = [node.get_content(MetadataMode.NONE) for node in nodes]
        given, scores = [node.metadata for node in nodes], [node.score for node in nodes]
        contexts = refined(self.refiner, query_bundle.query_str, texts, given, self.max_tokens, self.settings)
        shorter = []
        for context in contexts:
            own = [nodes[place].node for place in places(context, len(nodes))]
            llm = {key for node in own for key in node.excluded_llm_metadata_keys}
            embed = {key for node in own for key in node.excluded_embed_metadata_keys}
            node = TextNode(
                text=context.text,
                metadata=metadata_kept(context, given),
                excluded_llm_metadata_keys=sorted({*llm, *UNPROMPTED}),
                excluded_embed_metadata_keys=sorted({*embed, *UNPROMPTED}),
                relationships=own[0].relationships if len(own) == 1 else {},
            )
            shorter.append(NodeWithScore(node=node, score=best_score(context, scores)))
        return shorter


def _nodes(hits: Hits) -> list[NodeWithScore]:
    nodes = []
    for hit in hits:
        node = TextNode(
            id_=str(hit.unit_id),
            text=hit.text,
            metadata=metadata_of(hit),
            excluded_llm_metadata_keys=list(UNPROMPTED),
            excluded_embed_metadata_keys=list(UNPROMPTED),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=str(hit.passage_id))},
        )
        nodes.append(NodeWithScore(node=node, score=hit.score))
    return nodes
