"""An encoder whose vectors are so small that ten million passages fit on a disk."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.projection import Projection
from vitalfew.configs.schema import EncodeConfig
from vitalfew.tasks.encoders.base import Encoded
from vitalfew.tasks.models.ticks import Tick

DIMENSION = 32
BATCH = 4096


class Small(Projection):
    """A random projection of a text's counts of bytes to DIMENSION numbers, of unit length."""

    dimension = DIMENSION

    def __init__(self, options: EncodeConfig) -> None:
        self.matrix = np.random.default_rng(0).standard_normal((256, DIMENSION)).astype(np.float32)

    def encode(self, texts: Sequence[str], tick: Tick = lambda tokens, share: None) -> Encoded:
        """float32 (n, DIMENSION)."""
        vectors = np.empty((len(texts), DIMENSION), np.float32)
        for start in range(0, len(texts), BATCH):
            raw = [text.encode() for text in texts[start : start + BATCH]]
            vectors[start : start + len(raw)] = _unit(np.log1p(_counts(raw)) @ self.matrix)
        tokens = sum(map(len, texts)) // 5
        tick(tokens, 1.0)
        return Encoded(vectors, tokens, 0)


def _counts(raw: list[bytes]) -> Any:
    """How often every byte is in every text, float32 (n, 256)."""
    rows = np.repeat(np.arange(len(raw)), [len(text) for text in raw])
    cells = rows * 256 + np.frombuffer(b"".join(raw), np.uint8)
    return np.bincount(cells, minlength=256 * len(raw)).reshape(-1, 256).astype(np.float32)


def _unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
