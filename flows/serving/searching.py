"""Search and reranking by the index of a configuration."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vitalfew.flows.pipelines.answering import Answering
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.retrieve import Retrieve
from vitalfew.tasks.splitters.tokens import count_tokens


@dataclass(frozen=True)
class FoundUnit:
    """A retrieved unit: `source_id` names its passage, such as a file and the heading in it, and `also` has its further
    names, where the same text stands several times; `start` and `end` (code points, half-open) in its passage;
    `tokens`: words and punctuation marks, counted when they are asked for, because to count those of all hits takes as
    long as to score them."""

    rank: int
    score: float
    passage_id: int
    title: str
    source_id: str
    start: int
    end: int
    text: str
    also: tuple[str, ...] = ()

    @cached_property
    def tokens(self) -> int:
        return count_tokens(self.text)


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


def search(answering: Answering, questions: Sequence[str]) -> list[list[FoundUnit]]:
    """The hits of every question, best first: those that the method would answer from. Raises InputError."""
    stage = retrieving(answering)
    top = stage.searcher.search(questions, stage.config)
    columns = stage.searcher.columns(top, stage.method.unit)
    hits: list[list[FoundUnit]] = [[] for _ in questions]
    names = ("question", "rank", "score", "passage_id", "title", "source_id", "start", "end", "text", "also")
    for question, rank, score, passage, title, source, start, end, text, also in zip(
        *(columns[name] for name in names), strict=True
    ):
        unit = FoundUnit(int(rank), float(score), int(passage), title, source, int(start), int(end), text, tuple(also))
        hits[question].append(unit)
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
