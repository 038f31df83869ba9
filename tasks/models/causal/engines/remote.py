"""Engines that ask a server: every prompt is a request, several are under way at once, and a request may cost money.

An answer that is paid for is kept before anything else happens with it (memory.py), and is not asked for again. Equal
prompts of a batch are one request. Without a journal the answers live as long as the batch.

A refusal (the prompt is too long) is an answer, and becomes a row with an error. A failure that may pass (an outage, a
limit of requests) is not an answer: the batch ends with `Unanswered` once all its prompts were asked, so that no shard
is done before its requests are answered. The setting `accept_errors` makes it a row as well.

Where the money of a command is capped (budget.py), no request is sent that may pass the cap: the batch ends with
`CapReached` once those are answered that are under way.
"""

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import asdict, replace
from typing import Any, ClassVar, NamedTuple

from vitalfew.configs.options import ServerOptions
from vitalfew.tasks.models.causal.engines.base import (
    Completion,
    Engine,
    EngineOptions,
    EngineUnavailable,
    JsonSchema,
    Probe,
)
from vitalfew.tasks.models.causal.engines.budget import CapReached, payments_now
from vitalfew.tasks.models.causal.engines.memory import current, request_keys
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.models.within import within

PATIENCE = 100
"""Requests in a row without an answer, after which no more are sent."""
GOES_ON = (
    "All answers that came are kept: run the same command again, and it sends only the other requests. If some of them "
    "fail every time, set accept_errors beside the model (--set generate.accept_errors=true): they become rows with an "
    "error"
)
FRAME_TOKENS = 200
"""The most that a chat template with its system prompt adds to a prompt."""
_HALVES = re.compile("[\ud800-\udfff]")
"""Halves of surrogate pairs, which JSON can name and UTF-8, so any table, cannot hold."""


Assumption = Callable[["Remote", str], Completion]
_assumption: ContextVar[Assumption | None] = ContextVar("assumption", default=None)


def assuming(assumption: Assumption) -> AbstractContextManager[Any]:
    """In this block, remote engines that this thread asks send no request, and return assumed completions."""
    return within(_assumption, assumption)


class Unanswered(ValueError):
    """Requests that have no answer, for reasons that may pass. `reasons`: how many requests for every reason; `sent`:
    how many requests were sent; `stage`: which one sent them."""

    def __init__(self, reasons: Mapping[str, int], sent: int, stage: str = "") -> None:
        super().__init__(reasons, sent, stage)  # by which it travels between processes
        self.reasons, self.sent, self.stage = Counter(reasons), sent, stage

    def __str__(self) -> str:
        most = [(reason.rstrip("."), count) for reason, count in self.reasons.most_common(3)]
        listed = "; ".join(f"{reason} ({count:,} times)" if count > 1 else reason for reason, count in most)
        others = f"; and {len(self.reasons) - len(most)} other reasons" if len(self.reasons) > len(most) else ""
        stage = f"{self.stage}: " if self.stage else ""
        return f"{stage}{self.reasons.total():,} of {self.sent:,} requests have no answer: {listed}{others}. {GOES_ON}"

    @classmethod
    def together(cls, failures: Sequence["Unanswered"], stage: str) -> "Unanswered":
        """Join the failures of several shards of a stage."""
        reasons = sum((failure.reasons for failure in failures), Counter[str]())
        return cls(reasons, sum(failure.sent for failure in failures), stage)


class ServerAnswer(NamedTuple):
    """The answer to a request, and the `tokens` that the server counted for it, even if the answer is useless.

    `may_pass`: it is an error that the same request may not have later."""

    completion: Completion
    tokens: int = 0
    may_pass: bool = False

    @property
    def is_paid(self) -> bool:
        """Return whether it is the server's answer: not a refusal, nor a failure that may pass."""
        return bool(self.tokens) or not self.completion.error

    @property
    def counted(self) -> int:
        """The tokens, if the server counted those of the prompt too; else 0."""
        return self.tokens if self.completion.prompt_tokens or self.completion.error else 0


class RemoteOptions(EngineOptions, ServerOptions):
    """The settings of an engine that asks a server."""


class Remote(Engine):
    """An engine that says how to ask for one answer (`asker`)."""

    Options: ClassVar[type[RemoteOptions]]
    options: RemoteOptions
    uses_gpu = False
    workers: int | None = 1
    completion: ClassVar[type[Completion]] = Completion
    """What it gives, and keeps in the journal."""
    _lost_in_a_row = 0

    @abstractmethod
    def asker(self, probe: Probe | None, form: JsonSchema | None) -> Callable[[str], ServerAnswer]:
        """Return a function of a prompt that asks the server, for several threads at once. Raises EngineUnavailable,
        ConfigError; an exception of the function ends the batch."""

    def complete(
        self, prompts: Sequence[str], probe: Probe | None = None, tick: Tick = no_tick, form: JsonSchema | None = None
    ) -> list[Completion]:
        """Raises also Unanswered, CapReached, and NoPrice where money is capped and the model has no price."""
        if assumption := _assumption.get():
            assumed = [assumption(self, prompt) for prompt in prompts]
            tick(len(assumed), sum(answer.computed for answer in assumed))
            return assumed
        journal = current()
        keys = request_keys(self, prompts, probe, form)
        times = Counter(keys)
        answers: dict[str, Completion] = {}

        def enter(key: str, completion: Completion) -> None:
            answers[key] = _writable(completion)
            for _ in range(times[key]):
                if journal:
                    journal.give(completion.computed)
                tick(1, completion.computed)

        for key in times:
            if journal and (found := journal.find(key)):
                enter(key, self.completion(**found))
        due = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in answers}
        lost = Counter[str]()
        for key, answer in self._ask(due, probe, form):
            if answer.may_pass and not self.options.accept_errors:
                lost[answer.completion.error] += 1
                self._lost_in_a_row += 1
                if self._lost_in_a_row == PATIENCE:
                    self._lost_in_a_row = 0
                    reason = answer.completion.error.rstrip(".")
                    raise EngineUnavailable(f"the last {PATIENCE} requests have no answer: {reason}. {GOES_ON}")
            else:
                self._lost_in_a_row = 0
                enter(key, answer.completion)
        if lost:
            raise Unanswered(lost, len(due))
        return [answers[key] for key in keys]

    def _ask(
        self, due: dict[str, str], probe: Probe | None, form: JsonSchema | None
    ) -> Iterator[tuple[str, ServerAnswer]]:
        """Yield the answers to prompts, with their keys, as they come. Raises CapReached after the last of them."""
        if not due:
            return
        journal, paying = current(), payments_now()  # of this thread; those of the pool share them
        ask = self.asker(probe, form)

        def asked(prompt: str) -> ServerAnswer:
            """Once there is money for it. No token is shorter than a byte. Raises CapReached."""
            if not paying:
                return ask(prompt)
            read = len(prompt.encode("utf-8", "surrogatepass"))
            with paying(read + FRAME_TOKENS + self.options.max_tokens) as payment:
                answer = ask(prompt)
                if answer.is_paid:
                    payment.answered(answer.counted)
                return answer

        def kept(key: str, prompt: str) -> ServerAnswer:
            answer = asked(prompt)
            if journal and answer.is_paid:
                journal.keep([(key, asdict(answer.completion), answer.tokens)])
            return answer

        pool, reached = ThreadPoolExecutor(self.options.concurrency), list[CapReached]()
        try:
            requests = {pool.submit(kept, key, prompt): key for key, prompt in due.items()}
            for done in as_completed(requests):
                if done.cancelled():
                    continue
                try:
                    yield requests[done], done.result()
                except CapReached as error:
                    reached.append(error)
                    for request in requests:
                        request.cancel()
            if reached:
                raise reached[-1]
        finally:
            pool.shutdown(cancel_futures=True)


def _writable(completion: Completion) -> Completion:
    """Put U+FFFD in the place of characters that no table can hold."""
    text, reason, error = (
        _HALVES.sub("\ufffd", written) for written in (completion.text, completion.finish_reason, completion.error)
    )
    return replace(completion, text=text, finish_reason=reason, error=error)
