"""What a model made of a text, remembered: by the ratios, methods and runs that ask for the same again.

A reading (the surprise of every token, the relevance of a sentence) depends on the model and on what it reads alone;
how much of the text is then kept is for others to decide. So a sweep over budgets reads once. Within `remembering`,
`remembered` asks the memory first; without one, as where a method is called by itself, everything is computed.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalfew.storage.artifacts import fingerprint
from vitalfew.storage.ids import content_id
from vitalfew.tasks.models.loading import clock, cpu_clock

logger = logging.getLogger("vitalfew")

Values = NDArray[np.float32]


class Reading(NamedTuple):
    """`values`: float32 (n,), what the model says; `tokens`: that were computed, in `seconds` on the clock and
    `cpu_seconds` of all processors."""

    values: Values
    tokens: int
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Memory:
    """The readings of a piece of work. `find`: those that earlier work left, by key.

    `new`: the readings that were computed, by key; `recalled`: those that were not, which had cost their seconds."""

    def __init__(self, find: Callable[[Sequence[int]], Mapping[int, Reading]] = lambda keys: {}) -> None:
        self._find = find
        self.new: dict[int, Reading] = {}
        self.recalled: dict[int, Reading] = {}

    def known(self, keys: Sequence[int]) -> dict[int, Reading]:
        due = [key for key in dict.fromkeys(keys) if key not in self.new and key not in self.recalled]
        self.recalled.update(self._find(due) if due else {})
        both = self.recalled | self.new
        return {key: both[key] for key in keys if key in both}


_memory: ContextVar[Memory | None] = ContextVar("memory", default=None)


@contextmanager
def remembering(memory: Memory) -> Iterator[Memory]:
    """Within the block, readings are looked up there, and kept there."""
    token = _memory.set(memory)
    try:
        yield memory
    finally:
        _memory.reset(token)


def remembered(
    model: Mapping[str, Any],
    requests: Sequence[tuple[str, ...]],
    read: Callable[[Sequence[int]], Sequence[Reading]],
) -> list[Values]:
    """The values of every request, in order. `model`: everything that they depend on besides the request; `read`:
    computes the requests at these places, of which no two are the same and none is known.

    What is no number counts as 0, the least of probabilities, and is warned of; of logits `read` says so itself."""
    identity = fingerprint(**model)
    keys = [content_id(identity, *request) for request in requests]
    memory = _memory.get() or Memory()
    known = memory.known(keys)
    due = {key: place for place, key in reversed([*enumerate(keys)]) if key not in known}
    places = sorted(due.values())
    began, cpu = clock(), cpu_clock()
    computed = read(places) if places else []
    took, cpu = clock() - began, cpu_clock() - cpu
    whole = max(1, sum(reading.tokens for reading in computed))
    for place, (values, tokens, *_) in zip(places, computed, strict=True):
        share = tokens / whole
        memory.new[keys[place]] = Reading(finite(values), tokens, share * took, share * cpu)
    known |= {keys[place]: memory.new[keys[place]] for place in places}
    return [known[key].values for key in keys]


LEAST = -1e30
"""The least logit: what is worth nothing."""


def finite(values: Values, least: float = 0.0) -> Values:
    """With the least in the place of what is no number."""
    if (faulty := ~np.isfinite(values)).any():
        logger.warning("a model gave %d values that are not numbers; they count as the lowest", faulty.sum())
        return np.where(faulty, np.float32(least), values)
    return values


def settled(values: Values) -> Values:
    """With twelve bits of mantissa: the last bits depend on what else was in a batch, and would tell equals apart."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 4096) / np.float32(4096), exponent).astype(np.float32)
