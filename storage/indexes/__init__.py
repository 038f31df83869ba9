"""The best units of a search, and how those of several shards become one list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]

NOTHING = -1
"""The id, shard and row in places that are left empty: fewer units match than were asked for."""
WAITING = 4_000_000
"""Units that wait to be merged, at most: what memory follows when there are many shards."""


@dataclass(frozen=True)
class TopK:
    """The best units of every question, best first; every array is (questions, k): `ids` int64 (−1: none), `scores`
    float32, and where a unit lies: `shards`, `rows`."""

    ids: Rows
    scores: Vectors
    shards: Rows
    rows: Rows

    def columns(self) -> list[np.ndarray]:
        return [self.ids, self.scores, self.shards, self.rows]

    def __getitem__(self, questions: slice) -> "TopK":
        return TopK(*(column[questions] for column in self.columns()))


def stacked(parts: Sequence[TopK]) -> TopK:
    """The best units of the questions of all parts, of which each has as many columns."""
    if len(parts) == 1:
        return parts[0]
    return TopK(*(np.concatenate(arrays) for arrays in zip(*(part.columns() for part in parts), strict=True)))


def _best_first(scores: Vectors, rows: Rows, k: int) -> Rows:
    """The places (n, ≤ k) of the k best of every line. Equal scores keep their order; empty places are last."""
    return np.argsort(np.where(rows >= 0, -scores, np.inf), axis=1, kind="stable")[:, :k]


def merged(parts: Sequence[TopK], k: int) -> TopK:
    """The k best of all parts. Equal scores keep the order of the parts, whatever k is."""
    columns = [np.concatenate(arrays, axis=1) for arrays in zip(*(part.columns() for part in parts), strict=True)]
    order = _best_first(columns[1], columns[3], k)
    questions = np.arange(len(order))[:, None]
    return TopK(*(column[questions, order] for column in columns))


def search_shards(shards: int, questions: int, k: int, search: Callable[[int, Vectors, Rows], None]) -> TopK:
    """The k best over all shards. `search` fills the scores and rows, both (questions, k), of a shard given by its
    number, best first; row −1 where fewer match. The ids are −1, for not known yet."""
    at_once, parts = max(1, WAITING // max(1, questions * k)), list[TopK]()
    lines = np.arange(questions)[:, None]
    for first in range(0, shards, at_once):
        scores = np.empty((min(at_once, shards - first), questions, k), np.float32)
        rows = np.empty(scores.shape, np.int64)
        for number in range(len(scores)):
            search(first + number, scores[number], rows[number])
        all_scores = scores.swapaxes(0, 1).reshape(questions, -1)
        all_rows = rows.swapaxes(0, 1).reshape(questions, -1)
        order = _best_first(all_scores, all_rows, k)
        best = all_rows[lines, order]
        numbers = np.where(best >= 0, first + order // k, NOTHING)
        parts.append(TopK(np.full_like(best, NOTHING), all_scores[lines, order], numbers, best))
    return parts[0] if len(parts) == 1 else merged(parts, k)
