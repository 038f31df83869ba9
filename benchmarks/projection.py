"""An encoder that costs next to nothing: what is left to measure is the pipeline around it."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from vitalfew.configs.schema import EncodeConfig
from vitalfew.tasks.encoders.base import Encoded, LateEncoded, Spans
from vitalfew.tasks.models.ticks import Tick

BATCH = 4096


class Projection:
    """A random projection of a text's counts of bytes, unit length: linear in the text, the same everywhere. Vectors
    of 32 numbers are so small that ten million passages fit on a disk."""

    version: ClassVar[str] = "1"
    dimension = 32
    uses_gpu = False
    supports_late = False

    def __init__(self, options: EncodeConfig) -> None:
        self.matrix = np.random.default_rng(0).standard_normal((256, self.dimension)).astype(np.float32)

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version, "files": {}}

    def encode(self, texts: Sequence[str], tick: Tick = lambda tokens, share: None) -> Encoded:
        """float32 (n, dimension)."""
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), BATCH):
            raw = [text.encode() for text in texts[start : start + BATCH]]
            rows = np.repeat(np.arange(len(raw)), [len(text) for text in raw])
            cells = rows * 256 + np.frombuffer(b"".join(raw), np.uint8)
            counts = np.bincount(cells, minlength=256 * len(raw)).reshape(-1, 256).astype(np.float32)
            projected = np.log1p(counts) @ self.matrix
            vectors[start : start + len(raw)] = projected / np.linalg.norm(projected, axis=1, keepdims=True)
        tokens = sum(map(len, texts)) // 5
        tick(tokens, 1.0)
        return Encoded(vectors, tokens, 0)

    def encode_questions(self, texts: Sequence[str]) -> Encoded:
        return self.encode(texts)

    def encode_late(self, passages: Sequence[str], spans: Sequence[Spans], tick: Tick = ...) -> LateEncoded:  # type: ignore[assignment]
        raise NotImplementedError("this encoder has no token states")
