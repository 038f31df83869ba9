"""The contracts of splitters: what units passages come apart into.

A `Splitter` cuts: its sentences partition a passage, character by character. A `RewritingSplitter` makes units of a
passage that do not stand in it (propositions): they have no place in it, and joined they are not the passage.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from pydantic import Field

from configs.schema import SplitConfig

Parameters = dict[str, Any]
"""What a splitter has learnt, as plain JSON: stored beside the sentences, it makes the split reproducible."""
Tick = Callable[[int, int], None]
"""Called with how many more passages are done and how many more tokens a model computed for them."""


def no_tick(passages: int, tokens: int) -> None:
    """Nobody watches."""


class TrainedOptions(SplitConfig):
    """What splitters that cut have in common: each is trained on a sample of the corpus."""

    sample_chars: int = Field(2_000_000, ge=1, description="Characters of the corpus the splitter is trained on.")


class Splitter(Protocol):
    """A class that has `Options`, a TrainedOptions with what can be set of it besides, and is made of an instance of
    them."""

    version: ClassVar[str]
    """Part of the fingerprint: raise it when the same parameters would split differently."""

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`."""
        ...

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


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of the corpus; `passage_id` is the content id of its text."""

    passage_id: int
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Units of each passage in their order, none where nothing could be made of it (it then stays whole); tokens that a
    model computed; counts for the manifest."""

    units: list[list[str]]
    tokens: int = 0
    notes: Mapping[str, int] = field(default_factory=dict)


class RewritingSplitter(Protocol):
    """A class that has `Options`, a SplitConfig with what can be set of it besides, and is made of an instance of them.

    A model is loaded by the first `rewrite`, not on construction, and kept.
    """

    rewrites: ClassVar[bool]
    """True: what tells it from a Splitter."""
    version: ClassVar[str]
    uses_gpu: bool
    workers: int | None
    """How many of it a machine bears: None, one a core; 1 for a model that uses all cores itself."""

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`."""
        ...

    def identity(self) -> dict[str, Any]:
        """What its units depend on: its version, checksums of its files. Known without loading a model."""
        ...

    def rewrite(self, passages: Sequence[Passage], tick: Tick = ...) -> Rewritten: ...
