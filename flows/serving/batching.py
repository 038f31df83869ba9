"""A line of requests before one thread, which computes them in batches, in order of arrival.

The event loop never computes: it hands a request over and awaits its future. Cancelling the future takes the request
out of the line, so that a client that hangs up frees its place and costs nothing.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any, Protocol

from vitalfew.flows.serving.errors import Refused

Task = Callable[[Sequence[Any]], Sequence[Any]]
"""Computes a batch of items; returns a result for every item, in order."""

FAULTS = 2
"""Requests of a failed batch that fail again, one after the other, until the rest is not tried."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of a line and its batches.

    No request waits for others: those that come while a batch is computed make the next one, and waiting made no client
    faster (docs/results/serve.md). `requests` and `characters`: of a batch (one request may be longer); `room`:
    requests that wait at a time.
    """

    requests: int = 32
    characters: int = 100_000
    room: int = 128


class Full(Refused):
    """The line has no room. `retry_after`: seconds until it probably has."""

    def __init__(self, waiting: int, retry_after: int) -> None:
        said = f"{waiting} requests are waiting already; try again in {retry_after} s"
        super().__init__(429, said, retry_after=retry_after)


class Closed(Refused):
    """The line accepts no request any more, because the server ends."""

    def __init__(self) -> None:
        super().__init__(503, "the server is ending and accepts no further request", "ending", retry_after=1)


class Lost(Refused):
    """No process is left that can compute a request."""

    def __init__(self, message: str) -> None:
        super().__init__(503, message, "unavailable", retry_after=5)


class RequestLine(Protocol):
    """A line that a server puts requests into. `again`: requests so far that were computed again, because the process
    that computed them was lost."""

    again: int

    @property
    def waiting(self) -> int: ...

    def start(self) -> None: ...

    def submit(self, task: str, item: Any, size: int) -> "Future[Any]":
        """Put a request into the line. Raises Full, Closed."""

    def close(self, seconds: float | None = None) -> None:
        """Accept nothing more, and finish what waits, within `seconds`."""


@dataclass(eq=False)
class QueuedRequest:
    """A request in the line. `size`: characters that are computed for it."""

    task: str
    item: Any
    size: int
    future: "Future[Any]" = field(default_factory=Future)


class WaitingLine:
    """Requests that wait for one thread. A batch holds neighbours of the same task."""

    again = 0

    def __init__(self, tasks: Mapping[str, Task], bounds: Bounds, name: str = "line") -> None:
        self.tasks, self.bounds = tasks, bounds
        self._jobs: deque[QueuedRequest] = deque()
        self._changed = Condition()
        self._closed = False
        self._seconds = 0.0  # of the last batch
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of requests that wait; those being computed do not count."""
        return len(self._jobs)

    def submit(self, task: str, item: Any, size: int) -> "Future[Any]":
        """Put a request into the line. Raises Full, Closed."""
        job = QueuedRequest(task, item, size)
        with self._changed:
            if self._closed:
                raise Closed
            if len(self._jobs) >= self.bounds.room:
                raise Full(len(self._jobs), self._retry_after())
            self._jobs.append(job)
            self._changed.notify_all()
        job.future.add_done_callback(lambda future: self._leave(job) if future.cancelled() else None)
        return job.future

    def close(self, seconds: float | None = None) -> None:
        """Accept nothing more, finish what waits, and end the thread; wait for that at most `seconds`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _retry_after(self) -> int:
        """Seconds until those who wait are through, if every batch takes as long as the last one."""
        batches = math.ceil(len(self._jobs) / self.bounds.requests)
        return max(1, math.ceil(batches * self._seconds))

    def _leave(self, job: QueuedRequest) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def _run(self) -> None:
        while batch := self._next():
            began = time.monotonic()
            self._compute(batch)
            self._seconds = time.monotonic() - began

    def _next(self) -> list[QueuedRequest]:
        """Wait for a batch; empty if the line is closed and nothing waits."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                if not self._jobs:
                    return []
                jobs = [self._jobs.popleft() for _ in range(self._fitting())]
                if taken := [job for job in jobs if job.future.set_running_or_notify_cancel()]:
                    return taken

    def _fitting(self) -> int:
        """How many of the line's first jobs make a batch."""
        size = 0
        for place, job in enumerate(self._jobs):
            size += job.size
            is_other = job.task != self._jobs[0].task
            if place and (is_other or place >= self.bounds.requests or size > self.bounds.characters):
                return place
        return len(self._jobs)

    def _compute(self, batch: Sequence[QueuedRequest]) -> Exception | None:
        """Compute a batch; return the error if there was one."""
        try:
            results = self.tasks[batch[0].task]([job.item for job in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
            else:
                self._compute_alone(batch, error)
            return error
        for job, result in zip(batch, results, strict=True):
            job.future.set_result(result)
        return None

    def _compute_alone(self, batch: Sequence[QueuedRequest], error: Exception) -> None:
        """Retry each request alone, so that one bad request fails only itself. After FAULTS failures the rest fails
        too."""
        faults = 0
        for job in batch:
            if faults == FAULTS:
                job.future.set_exception(error)
            else:
                faults = faults + 1 if self._compute([job]) else 0
