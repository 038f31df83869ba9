"""Readings of texts by models, which are remembered across ratios, methods and runs.

A reading (the surprise of every token, the relevance of a sentence) depends on the model and its input alone, not on
how much of the text is then kept: a sweep over budgets reads once. Within `remembering`, `remembered` asks the memory
first; without a memory, as where a method is called by itself, everything is computed.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalfew.storage import schemas
from vitalfew.storage.artifacts import fingerprint
from vitalfew.storage.costs import Reused
from vitalfew.storage.ids import content_id
from vitalfew.tasks.models.loading import clock, cpu_clock
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.models.within import within

logger = logging.getLogger("vitalfew")

READINGS = "readings"
"""The table of what models made of texts."""
Values = NDArray[np.float32]
RequestT = TypeVar("RequestT", bound=tuple[str, ...])


class Reading(NamedTuple):
    """`values`: float32 (n,); `tokens`: how many were computed, in `seconds` on the clock and `cpu_seconds` of all
    processors."""

    values: Values
    tokens: int
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Memory:
    """The readings of a piece of work, by key: `new` were computed, `recalled` come from earlier work, by `find`."""

    def __init__(self, find: Callable[[Sequence[int]], Mapping[int, Reading]] = lambda keys: {}) -> None:
        self._find = find
        self.new: dict[int, Reading] = {}
        self.recalled: dict[int, Reading] = {}

    def known(self, keys: Sequence[int]) -> dict[int, Reading]:
        due = [key for key in dict.fromkeys(keys) if key not in self.new and key not in self.recalled]
        self.recalled.update(self._find(due) if due else {})
        both = self.recalled | self.new
        return {key: both[key] for key in keys if key in both}

    def tables(self) -> dict[str, pa.Table]:
        """The table of the readings that were computed; none if there are none."""
        rows = [{"reading_id": key, "reading": own.values, **own._asdict()} for key, own in sorted(self.new.items())]
        return {READINGS: pa.Table.from_pylist(rows, schemas.READINGS)} if rows else {}

    def took(self, tokens: float | None = None) -> Reused:
        """The cost of the readings that were recalled. `tokens`: as the stage counts them, if otherwise."""
        read, seconds, cpu = (
            sum(getattr(own, name) for own in self.recalled.values()) for name in ("tokens", "seconds", "cpu_seconds")
        )
        return Reused(read if tokens is None else tokens, seconds, cpu)

    def notes(self) -> dict[str, int]:
        """How many readings were recalled, as a note for the manifest."""
        return {"remembered": len(self.recalled)} if self.recalled else {}


_memory: ContextVar[Memory | None] = ContextVar("memory", default=None)


def remembering(memory: Memory) -> AbstractContextManager[Memory]:
    """Look up and keep the block's readings in `memory`."""
    return within(_memory, memory)


def remembered(
    model: Mapping[str, Any],
    requests: Sequence[RequestT],
    read: Callable[[Sequence[RequestT]], Sequence[Reading]],
    tick: Tick = no_tick,
) -> list[Values]:
    """The values of every request, in order; see `recalled`."""
    return [reading.values for reading in recalled(model, requests, read, tick)]


def recalled(
    model: Mapping[str, Any],
    requests: Sequence[RequestT],
    read: Callable[[Sequence[RequestT]], Sequence[Reading]],
    tick: Tick = no_tick,
) -> list[Reading]:
    """The reading of every request, in order, with what it took when it was computed.

    `model`: everything that the values depend on besides the request. `read` computes those that are unknown,
    which are distinct. `tick` counts the others. A value that is not a number becomes 0, the lowest
    probability, with a warning; `read` replaces such logits itself.
    """
    identity = fingerprint(**model)
    keys = [content_id(identity, *request) for request in requests]
    memory = _memory.get() or Memory()
    known = memory.known(keys)
    due = {key: place for place, key in reversed([*enumerate(keys)]) if key not in known}
    places = sorted(due.values())
    began, cpu = clock(), cpu_clock()
    computed = read([requests[place] for place in places]) if places else []
    took, cpu = clock() - began, cpu_clock() - cpu
    whole = max(1, sum(reading.tokens for reading in computed))
    for place, (values, tokens, *_) in zip(places, computed, strict=True):
        share = tokens / whole
        memory.new[keys[place]] = Reading(finite(values), tokens, share * took, share * cpu)
    known |= {keys[place]: memory.new[keys[place]] for place in places}
    tick(len(requests) - len(places), 0)
    return [known[key] for key in keys]


LEAST = -1e30
"""The lowest logit."""


def finite(values: Values, least: float = 0.0) -> Values:
    """Replace values that are not numbers by `least`, with a warning."""
    if (faulty := ~np.isfinite(values)).any():
        logger.warning("a model gave %d values that are not numbers; they count as the lowest", faulty.sum())
        return np.where(faulty, np.float32(least), values)
    return values


def settled(values: Values) -> Values:
    """Round to twelve bits of mantissa: the others depend on the rest of the batch, and equal values would differ."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 4096) / np.float32(4096), exponent).astype(np.float32)
