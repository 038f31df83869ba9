"""The contract of an encoder: texts in, vectors out, compared by their inner product."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Spans = Sequence[tuple[int, int]]
Tick = Callable[[int, float], None]
"""Called with how many more tokens are encoded, and which further share of the texts (0 to 1) that is."""


@dataclass(frozen=True)
class Encoded:
    """`vectors` float32 (n, d), in the order of the texts; `tokens` computed, padding apart; texts cut at the limit."""

    vectors: Vectors
    tokens: int
    truncated: int


@dataclass(frozen=True)
class LateEncoded:
    """One forward pass per passage, pooled thrice, float32: `core`, `context` (sentences, d), `passage` (passages, d).

    The context of a passage's only sentence is a zero vector.
    """

    core: Vectors
    context: Vectors
    passage: Vectors
    tokens: int


class Encoder(Protocol):
    """A class that has `Options`, an EncodeConfig with what can be set of it besides, and is made of an instance of
    them."""

    version: ClassVar[str]
    dimension: int
    uses_gpu: bool
    supports_late: bool
    """Whether means over token states are what this model was made for."""

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`. Cheap: the model is loaded by the first encoding."""
        ...

    def identity(self) -> dict[str, Any]:
        """What the vectors depend on: weights (checksum), precision, pooling, prompts, limits.

        `files` holds the checksums: a search compares them with the index's."""
        ...

    def encode(self, texts: Sequence[str], tick: Tick = ...) -> Encoded:
        """Vectors of passages or sentences."""
        ...

    def encode_questions(self, texts: Sequence[str]) -> Encoded:
        """Vectors of questions, which some models encode in another way."""
        ...

    def encode_late(self, passages: Sequence[str], spans: Sequence[Spans], tick: Tick = ...) -> LateEncoded:
        """Vectors of every sentence (character spans that partition each passage) from its passage's forward pass."""
        ...
