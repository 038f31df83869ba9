"""Search and reranking by the index of a configuration."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitalfew.flows.pipelines.answering import Answering
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.retrieve import Hit, Retrieve


@dataclass(frozen=True)
class Documents:
    """Documents to rank for a query."""

    query: str
    texts: Sequence[str]


def retrieving(answering: Answering) -> Retrieve:
    """The stage that retrieves. Raises InputError for a method that retrieves nothing."""
    for stage in answering.stages:
        if isinstance(stage, Retrieve):
            return stage
    raise InputError(f"the method {answering.configured.method.name} retrieves nothing: it has no index")


def search(answering: Answering, questions: Sequence[str]) -> list[list[Hit]]:
    """The hits of every question, best first: those that the method would answer from. Raises InputError."""
    stage = retrieving(answering)
    top = stage.searcher.search(questions, stage.config)
    return stage.searcher.found(top, stage.method.unit)


def rerank(answering: Answering, requests: Sequence[Documents]) -> list[list[float]]:
    """The relevance of every document of every request: the cosine of its vector and the query's, by the encoder of the
    index. Raises InputError."""
    encoder = retrieving(answering).searcher.encoder
    queries = _unit(encoder.encode_questions([request.query for request in requests]).vectors)
    texts = [*dict.fromkeys(text for request in requests for text in request.texts)]
    vectors = dict(zip(texts, _unit(encoder.encode(texts).vectors), strict=True))
    return [
        [float(np.dot(query, vectors[text])) for text in request.texts]
        for query, request in zip(queries, requests, strict=True)
    ]


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1, float32 (n, d); a zero vector stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)
