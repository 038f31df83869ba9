"""A configuration that is served: a configured method, the line before it, its readiness, and what it searches."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from vitalfew.flows.pipelines.answering import WARM_UP, Answering, RagAnswer
from vitalfew.flows.serving.batching import Bounds, RequestLine, Task, WaitingLine
from vitalfew.flows.serving.errors import place
from vitalfew.storage import generations
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.retrieve import Hit, Retrieve

logger = logging.getLogger("vitalfew")

LOADING = Lock()
"""Models are loaded by one thread at a time: large libraries are imported then, some of which cannot be by several."""


class Served:
    """A configuration under the name of its model. Its one thread computes all of its requests.

    The index's name is followed: where it moves, another `Answering` is opened and warmed beside the present one, and
    takes over with the next batch. The old one ends with its last batch.
    """

    def __init__(self, name: str, answering: Answering, bounds: Bounds | None = None) -> None:
        self.name, self.answering = name, answering
        self.ready = False
        tasks: dict[str, Task] = {
            "answer": self._answer,
            "search": partial(self._in_turn, search),
            "rerank": partial(self._in_turn, rerank),
            "warm": self._warm,
        }
        self.line: RequestLine = WaitingLine(tasks, bounds or Bounds(), f"serve {name}")

    @property
    def generation(self) -> int:
        """The generation of the index that it searches; 0 without an index."""
        index = self.answering.configured.index
        return index.generation if index else 0

    @property
    def is_encoded(self) -> bool:
        """True if its index has all vectors, or it has no index; false if searches have them made."""
        index = self.answering.configured.index
        return index is None or "faiss" in index.artifacts

    @property
    def index_name(self) -> str:
        """The name of its index; "" without one."""
        index = self.answering.configured.index
        return index.name if index else ""

    def start(self) -> None:
        """Start the thread, which first answers a question, so that every model is loaded."""
        self.line.start()
        self.warm()

    def warm(self) -> "Future[Any]":
        """Answer a question; `ready` says whether that went well. Raises Full, Closed."""
        return self.line.submit("warm", WARM_UP, len(WARM_UP))

    def follow(self) -> bool:
        """Take over the artifacts that the index's name points at now; true if they are others than before. Blocks
        while they are opened and warmed. Raises the errors of `Answering` and `find_index`, and then changes nothing.
        """
        if (following := self.moved()) is None:
            return False
        with LOADING:
            following.warm()
        self.answering, self.ready = following, True
        return True

    def moved(self) -> Answering | None:
        """Plan for the artifacts that the index's name points at now; None if they are those that are served."""
        chosen = self.answering.configured
        if chosen.index is None:
            return None
        index = generations.named(self.answering.store, chosen.index.name)
        if index.artifacts == chosen.index.artifacts:
            return None
        return Answering(self.answering.store, replace(chosen, index=index), self.answering.budget)

    def _answer(self, questions: Sequence[str]) -> list[RagAnswer]:
        with self._turn():
            answers = self.answering.answer(questions)
        self.ready = True
        return answers

    def _in_turn(self, task: Callable[[Answering, Sequence[Any]], list[Any]], items: Sequence[Any]) -> list[Any]:
        with self._turn():
            return task(self.answering, items)

    def _turn(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.ready else LOADING

    def _warm(self, questions: Sequence[str]) -> list[None]:
        try:
            self._answer(questions[:1])
        except Exception as error:
            logger.warning("%s is not ready: %s", self.name, place(error))
            raise
        return [None] * len(questions)


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
