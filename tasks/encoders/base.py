"""The contract of an encoder: it turns texts into vectors, which are compared by their inner product."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from vitalfew.tasks.models.ticks import TextTick

Vectors = NDArray[np.float32]
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Encoded:
    """`vectors` float32 (n, d), in the order of the texts; `tokens`: computed, without padding; `truncated`: the number
    of texts cut at the limit."""

    vectors: Vectors
    tokens: int
    truncated: int


@dataclass(frozen=True)
class LateEncoded:
    """Vectors from one forward pass per passage, float32: `core` (sentences, d), `passage` (passages, d)."""

    core: Vectors
    passage: Vectors
    tokens: int


class Encoder(Protocol):
    """A class with `Options`, an EncodeConfig with the encoder's settings; the constructor takes an instance,
    and is cheap: the first encoding loads the model.

    It may set `separator`, the text between a title and a text; the default is titles.SEPARATOR. It may have
    `fidelity(texts)`, which returns notes on how far its vectors are from exact ones, and `unread(texts)`, on scripts
    that it does not know (transformer.py).
    """

    version: ClassVar[str]
    dimension: int
    uses_gpu: bool
    supports_late: bool
    """Return whether the model was trained with the mean over token states."""

    def identity(self) -> dict[str, Any]:
        """Everything that the vectors depend on: weights (checksum), precision, pooling, prompts, limits.

        `files` holds the checksums; a search compares them with the index's."""
        ...

    def encode(self, texts: Sequence[str], tick: TextTick = ...) -> Encoded:
        """Vectors of passages or sentences."""
        ...

    def encode_questions(self, texts: Sequence[str]) -> Encoded:
        """Vectors of questions; some models encode these differently."""
        ...

    def encode_late(self, passages: Sequence[str], spans: Sequence[Spans], tick: TextTick = ...) -> LateEncoded:
        """Vectors of every sentence from its passage's forward pass; `spans`: character ranges that partition a
        passage, or what comes after its title."""
        ...
