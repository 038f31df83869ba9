"""Engines that ask a server: every prompt is a request, several are under way at once, and each may cost money.

What is paid for is kept before anything else happens with it, in the `Memory` of whoever is at work (a stage keeps the
answers of its shard in a journal: tasks/stage.py), and nothing is asked for that is in there. Equal prompts of a batch
are one request. Without a memory the answers live as long as the batch.
"""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Protocol

from vitalfew.configs.options import Server
from vitalfew.configs.section import NOT_IN_FINGERPRINT
from vitalfew.tasks.models.engines.base import Completion, Engine, EngineOptions, Probe, Tick, no_tick


class Memory(Protocol):
    """Where answers are kept that were paid for: plain JSON by the key of their request. Threads share it."""

    def find(self, key: str) -> dict[str, Any] | None:
        """The answer to a request that was paid for already."""

    def keep(self, key: str, answer: dict[str, Any], tokens: int) -> None:
        """Once this returns, the answer is not lost any more; `tokens`: as the server counted them."""

    def give(self, tokens: int) -> None:
        """A completion of so many tokens is returned for a prompt, whether it was asked for now or kept."""


_memory: ContextVar[Memory | None] = ContextVar("memory", default=None)


@contextmanager
def remembering(memory: Memory) -> Iterator[None]:
    """In this block, remote engines that are asked by this thread keep what they pay for, and ask for nothing twice."""
    token = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(token)


Assumption = Callable[["Remote", str], Completion]
_assumption: ContextVar[Assumption | None] = ContextVar("assumption", default=None)


@contextmanager
def assuming(assumption: Assumption) -> Iterator[None]:
    """In this block remote engines that this thread asks send no request: what a prompt comes to is assumed."""
    token = _assumption.set(assumption)
    try:
        yield
    finally:
        _assumption.reset(token)


class Answer(NamedTuple):
    """What a request came to, and the `tokens` that the server counted for it, also where its answer is of no use."""

    completion: Completion
    tokens: int = 0

    @property
    def is_paid(self) -> bool:
        """Whether it is the server's answer: not a refusal, nor a failure that may pass."""
        return bool(self.tokens) or not self.completion.error


class RemoteOptions(EngineOptions, Server):
    """The settings of an engine that asks a server."""


class Remote(Engine):
    """An engine that says how to ask for one answer (`asker`)."""

    Options: ClassVar[type[RemoteOptions]]
    options: RemoteOptions
    uses_gpu = False
    workers: int | None = 1

    @abstractmethod
    def asker(self, probe: Probe | None) -> Callable[[str], Answer]:
        """A function of a prompt that asks the server, and is called in several threads at once. Raises
        EngineUnavailable, ConfigError; what the function itself raises ends the batch."""

    def complete(self, prompts: Sequence[str], probe: Probe | None = None, tick: Tick = no_tick) -> list[Completion]:
        if assumption := _assumption.get():
            return [_told(assumption(self, prompt), tick) for prompt in prompts]
        memory = _memory.get()
        keys = [self._key(prompt, probe) for prompt in prompts]
        times = Counter(keys)
        answers: dict[str, Completion] = {}

        def enter(key: str, completion: Completion) -> None:
            answers[key] = completion
            tokens = completion.prompt_tokens + completion.completion_tokens
            for _ in range(times[key]):
                if memory:
                    memory.give(tokens)
                tick(1, tokens)

        for key in times:
            if memory and (kept := memory.find(key)):
                enter(key, Completion(**kept))
        due = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in answers}
        for key, completion in self._ask(due, probe, memory):
            enter(key, completion)
        return [answers[key] for key in keys]

    def _ask(self, due: dict[str, str], probe: Probe | None, memory: Memory | None) -> Iterator[tuple[str, Completion]]:
        """The answers to prompts, each with its key, as they come."""
        if not due:
            return
        ask = self.asker(probe)

        def paid(key: str, prompt: str) -> Completion:
            answer = ask(prompt)
            if memory and answer.is_paid:
                memory.keep(key, asdict(answer.completion), answer.tokens)
            return answer.completion

        pool = ThreadPoolExecutor(self.options.concurrency)
        try:
            requests = {pool.submit(paid, key, prompt): key for key, prompt in due.items()}
            for done in as_completed(requests):
                yield requests[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _key(self, prompt: str, probe: Probe | None) -> str:
        """The hash of everything that a request says."""
        fields = type(self).Options.model_fields
        names = {name for name, field in fields.items() if NOT_IN_FINGERPRINT not in field.metadata}
        request = {
            "engine": self.identity(),
            "options": self.options.model_dump(mode="json", include=names),
            "prompt": prompt,
            "probe": probe and asdict(probe),
        }
        return blake2b(json.dumps(request, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def _told(completion: Completion, tick: Tick) -> Completion:
    tick(1, completion.prompt_tokens + completion.completion_tokens)
    return completion
