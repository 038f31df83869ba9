"""What a search finds, and how the findings of several shards become one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NOTHING = -1
"""The id, shard and row that stand where fewer units were found than asked for."""


@dataclass(frozen=True)
class Found:
    """The best units of each question, best first, each array (questions, k): `ids` int64 (−1: none), `scores`
    float32, and where a unit lies: `shards`, `rows`."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float32]
    shards: NDArray[np.int64]
    rows: NDArray[np.int64]

    def columns(self) -> list[np.ndarray]:
        return [self.ids, self.scores, self.shards, self.rows]


def merged(parts: Sequence[Found], k: int) -> Found:
    """The k best of all parts. Equal scores keep the order of the parts, whatever k is; what was not found is last."""
    ids, scores, shards, rows = (
        np.concatenate(columns, axis=1) for columns in zip(*(part.columns() for part in parts), strict=True)
    )
    order = np.argsort(np.where(rows >= 0, -scores, np.inf), axis=1, kind="stable")[:, :k]
    return Found(*(np.take_along_axis(column, order, axis=1) for column in (ids, scores, shards, rows)))
