"""Batches of token ids: tokenised ahead of the model, sorted by length, filled up to a number of tokens, and padded."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.ticks import Tick, Watched

if TYPE_CHECKING:
    from tokenizers import Encoding
    from torch import Tensor

    from vitalfew.tasks.models.encoder.tower import Tower

ItemT = TypeVar("ItemT")
PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")

THREADS = "VITALFEW_THREADS"
WINDOW = 8192
"""Texts sorted by length together: enough to fill batches evenly, few enough to hold in memory."""


def tokenised(tower: "Tower", prompt: str, texts: Sequence[str]) -> Iterator[tuple[int, "list[Encoding]"]]:
    """(first row, encodings) of every window of texts; the next window is tokenised while this one is in use.

    Raises ConfigError if the prompt alone fills the model.
    """
    limit = tower.recipe.max_tokens
    if prompt and len(tower.tokenizer.encode(prompt).ids) >= limit:
        raise ConfigError(f"the prompt {prompt!r} leaves no room for a text: the model takes {limit} tokens")

    def tokenise(start: int) -> "list[Encoding]":
        some = texts[start : start + WINDOW]
        return tower.tokenizer.encode_batch([prompt + text for text in some] if prompt else some)

    with ThreadPoolExecutor(1) as ahead:
        upcoming = ahead.submit(tokenise, 0)
        for start in range(0, len(texts), WINDOW):
            window = upcoming.result()
            if start + WINDOW < len(texts):
                upcoming = ahead.submit(tokenise, start + WINDOW)
            yield start, window


def cut(encoding: "Encoding", limit: int) -> list[int]:
    """At most `limit` token ids; the special tokens at the end stay."""
    ids: list[int] = encoding.ids
    if len(ids) <= limit:
        return ids
    special = encoding.special_tokens_mask
    tail = 0
    while special[-1 - tail]:
        tail += 1
    return ids[: limit - tail] + ids[len(ids) - tail :]


def batches(lengths: Sequence[int], budget: int, step: int = 0) -> Iterator[list[int]]:
    """Rows in batches of similar length, longest first, of at most `budget` tokens (one row always fits), with the
    padding to the longest. `step`: rows are padded to a multiple of it, and stand with those of the same multiple
    alone."""
    batch: list[int] = []
    tokens = padded = 0
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        own = max(1, -(-lengths[row] // step)) * step if step else lengths[row]
        taken = max(1, padded if batch else own)
        if batch and (tokens + taken > budget or (step and own != padded)):
            yield batch
            batch, tokens, taken = [], 0, max(1, own)
        padded = padded if batch else own
        batch.append(row)
        tokens += taken
    if batch:
        yield batch


def padded_rows(rows: Sequence[Sequence[int]], padding: int) -> tuple["Tensor", "Tensor"]:
    """The rows padded on the right, and a mask that is 1 for numbers and 0 for padding: int64 (n, longest)."""
    import torch

    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    mask = np.arange(lengths.max()) < lengths[:, None]
    padded = np.full(mask.shape, padding, np.int64)
    padded[mask] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    return torch.from_numpy(padded), torch.from_numpy(mask.astype(np.int64))


def threads() -> int:
    """Batches that a process computes at once on a CPU, every one by one thread, so that no result depends on their
    number: VITALFEW_THREADS, or else the cores that the process may use. A Ray worker computes one."""
    stated = os.environ.get(THREADS, "")
    if stated.isdigit() and int(stated):
        return int(stated)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def computed(
    work: Callable[[ItemT], ResultT], items: Sequence[ItemT], at_once: int, loaded: bool = False
) -> Iterator[ResultT]:
    """The result of every batch, in order. Where the model is not `loaded`, this thread does the first alone."""
    alone = 0 if loaded else 1
    yield from map(work, items[:alone])
    at_once = min(at_once, len(items) - alone)
    if at_once < 2:
        yield from map(work, items[alone:])
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(work, items[alone:])


def read_parts(
    requests: Sequence[Sequence[PartT]],
    key: Callable[[PartT], tuple[Any, ...]],
    budget: int,
    tick: Tick,
    read: Callable[[list[PartT]], Iterable[ResultT]],
    at_once: int = 1,
) -> list[list[tuple[PartT, ResultT]]]:
    """Read the parts of all requests in batches, and return them with their results by request.

    `key`: a part's token ids, then whatever else distinguishes it. Parts are sorted by it, so that the order of the
    requests changes no batch. `tick` counts requests. `at_once`: batches that are read at once.
    """
    rows = [(number, part) for number, own in enumerate(requests) for part in own]
    rows.sort(key=lambda row: key(row[1]))
    lengths = [len(key(part)[0]) for _, part in rows]
    watched = Watched(tick, len(requests), len(rows))
    results: list[list[tuple[PartT, ResultT]]] = [[] for _ in requests]
    due = [*batches(lengths, budget)]
    found_by_batch = computed(lambda batch: [*read([rows[place][1] for place in batch])], due, at_once)
    for batch, found in zip(due, found_by_batch, strict=True):
        some = [rows[place] for place in batch]
        for (number, part), result in zip(some, found, strict=True):
            results[number].append((part, result))
        watched(len(some), sum(lengths[place] for place in batch))
    watched.finish()
    return results
