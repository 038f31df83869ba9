"""The best units of a search, and how those of several shards become one list."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

NOTHING = -1
"""The id, shard and row in places that are left empty: fewer units match than were asked for."""


@dataclass(frozen=True)
class TopK:
    """The best units of every question, best first; every array is (questions, k): `ids` int64 (−1: none), `scores`
    float32, and where a unit lies: `shards`, `rows`."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float32]
    shards: NDArray[np.int64]
    rows: NDArray[np.int64]

    def columns(self) -> list[np.ndarray]:
        return [self.ids, self.scores, self.shards, self.rows]


def best_first(scores: NDArray[np.float32], rows: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The places (n, ≤ k) of the k best of every line. Equal scores keep their order; empty places are last."""
    return np.argsort(np.where(rows >= 0, -scores, np.inf), axis=1, kind="stable")[:, :k]


def merged(parts: Sequence[TopK], k: int) -> TopK:
    """The k best of all parts. Equal scores keep the order of the parts, whatever k is."""
    columns = [np.concatenate(arrays, axis=1) for arrays in zip(*(part.columns() for part in parts), strict=True)]
    order = best_first(columns[1], columns[3], k)
    questions = np.arange(len(order))[:, None]
    return TopK(*(column[questions, order] for column in columns))
