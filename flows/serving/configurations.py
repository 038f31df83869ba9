"""A configuration that is served: a configured method, the line before it, and whether it is ready."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any

from vitalfew.flows.pipelines.answering import WARM_UP, Answering, RagAnswer
from vitalfew.flows.serving import searching
from vitalfew.flows.serving.batching import Bounds, RequestLine, Task, WaitingLine
from vitalfew.flows.serving.errors import place
from vitalfew.storage import generations

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
            "search": partial(self._in_turn, searching.search),
            "rerank": partial(self._in_turn, searching.rerank),
            "warm": self._warm,
        }
        self.line: RequestLine = WaitingLine(tasks, bounds or Bounds(), f"serve {name}")

    @property
    def generation(self) -> int:
        """The generation of the index that it searches; 0 without an index."""
        index = self.answering.configured.index
        return index.generation if index else 0

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
