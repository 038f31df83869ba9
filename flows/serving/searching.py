"""Search and reranking by the index of a configuration."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitalfew.flows.pipelines.answering import Answering
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.retrieve import Retrieve
from vitalfew.tasks.splitters.tokens import count_tokens


@dataclass(frozen=True)
class Hit:
    """A retrieved unit: `start` and `end` (code points, half-open) in its passage; `tokens`: words and punctuation
    marks of `text`."""

    rank: int
    score: float
    passage_id: int
    title: str
    start: int
    end: int
    text: str
    tokens: int


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
    searcher, unit = stage.searcher, stage.method.unit
    top = searcher.search(questions, stage.config)
    hits = []
    for number, rows in enumerate(searcher.texts(top, unit)):
        own = []
        for rank, row in enumerate(rows):
            text, start = row["text"], row.get("start", 0)
            title = row.get("title")
            if title is None:
                title = searcher.units.passage(int(top.shards[number, rank]), row["passage_id"])["title"]
            score, end = float(top.scores[number, rank]), row.get("end", len(text))
            own.append(Hit(rank + 1, score, row["passage_id"], title, start, end, text, count_tokens(text)))
        hits.append(own)
    return hits


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
