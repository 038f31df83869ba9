"""The contract of a sentence splitter: it partitions a passage into sentences, character by character."""

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

Parameters = dict[str, Any]
"""What a splitter has learnt, as plain JSON: stored beside the sentences, it makes the split reproducible."""


class Splitter(Protocol):
    version: ClassVar[str]
    """Part of the fingerprint: raise it when the same parameters would split differently."""

    def train(self, texts: Iterable[str]) -> Parameters:
        """Learn from a sample of the corpus. The same texts give the same parameters, in any process."""
        ...

    def load(self, parameters: Parameters) -> None:
        """Take over what `train` returned."""
        ...

    def split(self, text: str) -> list[tuple[int, int]]:
        """Half-open character ranges that partition `text`: the first starts at 0, each next one where the last ended,
        and the last ends at len(text). White space between two sentences belongs to the first of them. Every range
        has a non-blank character, unless the whole text is blank."""
        ...
