"""Answers for the page Ask, from a process of their own: the models and the index would take the memory of Prefect's
server, and its schedules would wait while they compute.

The process starts with the first question and ends after `IDLE` seconds without one, with the server, or by `stop`;
the next question starts another. It answers one question at a time.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from traceback import format_exc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.answering import RagAnswer, RagPassage
    from vitalfew.library.rag import Rag

logger = logging.getLogger("vitalfew")

IDLE = 600.0
"""Seconds without a question after which the process ends."""
OPEN = 8
"""Methods that it keeps open."""
ENDED = "the answering process died, perhaps for lack of memory; ask again"
STOPPED = "this answer was stopped, here or on another page that shares the process; ask again"


@dataclass(frozen=True)
class Asked:
    """A question to a method. `alpha`, `max_tokens`: None, as the method has them; `max_usd`: USD that requests to
    servers may cost for it."""

    question: str
    method: str
    index: str | None = None
    alpha: float | None = None
    max_tokens: int | None = None
    max_usd: float = 0.0


@dataclass(frozen=True)
class Answered:
    """An answer with its passages. `alpha`, `max_tokens`: of the method's settings; None: it has no such setting."""

    answer: "RagAnswer"
    passages: "list[RagPassage]"
    alpha: float | None
    max_tokens: int | None


@dataclass(frozen=True)
class Refused:
    """Why there is no answer. `costs`: it would cost more than `max_usd`."""

    reason: str
    costs: bool = False


class Answers:
    """The process that answers from one store."""

    def __init__(self, store: Path, idle: float = IDLE) -> None:
        self.store, self.idle = store, idle
        self.pid: int | None = None
        self.asked: Asked | None = None
        """The question that it answers now."""
        self._pool: Executor | None = None
        self._turn = asyncio.Lock()
        self._rest: asyncio.TimerHandle | None = None

    async def answer(self, asked: Asked, is_wanted: Callable[[], bool] = lambda: True) -> Answered | Refused | None:
        """The answer, after those of others; None if it is no longer wanted when its turn has come."""
        async with self._turn:
            if not is_wanted():
                return None
            if self._rest:
                self._rest.cancel()
            self.asked = asked
            try:
                return await self._computed(asked)
            except BrokenProcessPool:
                was_stopped = self._pool is None
                self.stop()
                return Refused(STOPPED if was_stopped else ENDED)
            finally:
                self.asked = None
                self._rest = asyncio.get_running_loop().call_later(self.idle, self.stop)

    async def _computed(self, asked: Asked) -> Answered | Refused:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, get_context("spawn"), _begin)
        pool, loop = self._pool, asyncio.get_running_loop()
        if self.pid is None:
            pid = await loop.run_in_executor(pool, os.getpid)
            if self._pool is not pool:
                raise BrokenProcessPool("it was stopped during its start")
            self.pid = pid
        return await loop.run_in_executor(pool, _answer, self.store, asked)

    def stop(self, asked: Asked | None = None) -> bool:
        """End the process, and what it computes; `asked`: if that is the answer to this question. Returns if it did."""
        if asked is not None and self.asked is not asked:
            return False
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # it writes nothing that must be whole
        if self._pool is not None:
            self._pool.shutdown(wait=False)  # one that has just begun says its number, and ends
        self._pool, self.pid = None, None
        return True


def _begin() -> None:
    """Let this process end when its server does, in any way; Ctrl-C is the server's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = parent_process()
    assert server is not None

    def wait() -> None:
        server.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def _answer(store: Path, asked: Asked) -> Answered | Refused:
    """In the process: answer, and say in words what a user can correct."""
    try:
        opened = _rag.__wrapped__ if asked.max_usd else _rag  # a cap is of one question
        rag = opened(store, asked.method, asked.index, asked.max_usd, _state(store, asked.index))
        answer = rag.answer(asked.question, alpha=asked.alpha, max_tokens=asked.max_tokens)
        return Answered(answer, rag.passages(answer), rag.alpha, rag.max_tokens)
    except Exception as error:
        from vitalfew.flows.errors import explanation
        from vitalfew.tasks.models.causal.engines.budget import CapReached

        if (said := explanation(error)) is None:
            logger.error("No answer by %s: %s", asked.method, format_exc())
            said = f"{type(error).__name__}: {error}. This is a bug; the server's log says where"
        return Refused(said, isinstance(error, CapReached))


def _state(store: Path, index: str | None) -> tuple[str, ...]:
    """The artifacts that an index's name points at, and the latest evaluation, whose settings count."""
    from vitalfew.storage import generations
    from vitalfew.storage.runs import read_runs

    artifacts = generations.named(store, index).artifacts.values() if index else ()
    finished = (run.run_id for run in read_runs(store) if run.flow == "evaluate" and run.state == "completed")
    return (*artifacts, *[*finished][-1:])


@lru_cache(OPEN)
def _rag(store: Path, method: str, index: str | None, max_usd: float, state: tuple[str, ...]) -> "Rag":
    """A method with the models that it has loaded. `state`: of the store, which changes when the name moves."""
    from vitalfew.library.store import Store

    return Store(store, progress=False).rag(method, index, max_usd=max_usd)
