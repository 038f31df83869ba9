"""The contracts of splitters, which turn passages into units.

A `Splitter` cuts: its sentences partition a passage, character by character. A `RewritingSplitter` writes new units
(propositions): they have no place in the passage, and joined they are not the passage.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from pydantic import Field

from vitalfew.configs.schema import SplitConfig
from vitalfew.tasks.models.ticks import Tick, no_tick

Parameters = dict[str, Any]
"""The result of a splitter's training, as plain JSON: stored beside the sentences, it makes the split reproducible."""


class TrainedOptions(SplitConfig):
    """The options shared by splitters that cut; all of them are trained on a sample of the corpus."""

    sample_chars: int = Field(2_000_000, ge=1, description="Characters of the corpus to train the splitter on.")
    language: str | None = Field(
        None,
        pattern="^[a-z]{2,3}$",
        description="Language of all passages, such as de or zh; default: by the letters of each, English for Latin.",
    )
    max_tokens: int = Field(
        200,
        ge=8,
        description="Maximum tokens of a unit, as the encoder minilm counts them (it reads 256 with the title). A "
        "longer unit is cut at the best boundary.",
    )


def sample(texts: Iterable[str], chars: int) -> Iterator[str]:
    """The first texts, to train a splitter on: `chars` characters at most."""
    for text in texts:
        if chars <= 0:
            return
        yield text[:chars]
        chars -= len(text)


class Splitter(Protocol):
    """A class with `Options`, a TrainedOptions with the splitter's settings; the constructor takes an instance."""

    version: ClassVar[str]
    """Part of the fingerprint: raise it when the same parameters would split differently."""

    def train(self, texts: Iterable[str]) -> Parameters:
        """Learn from a sample of the corpus. The same texts give the same parameters, in any process."""

    def load(self, parameters: Parameters) -> None:
        """Load the parameters that `train` returned."""

    def split(self, text: str) -> list[tuple[int, int]]:
        """Half-open character ranges that partition `text`: the first starts at 0, every other one at the end of the
        one before, and the last ends at len(text). White space between two sentences belongs to the first of them.
        Every range has a non-blank character, unless the whole text is blank."""


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage of the corpus; `passage_id` is the content id of its text."""

    passage_id: int
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The units of every passage in order (a passage without units stays whole); `tokens` that a model computed;
    `notes`: counts for the manifest."""

    units: list[list[str]]
    tokens: int = 0
    notes: Mapping[str, int] = field(default_factory=dict)


class RewritingSplitter(ABC):
    """A class with `Options`, a SplitConfig with the splitter's settings; the constructor takes an instance.

    The first `rewrite` loads the model, not the constructor; the model then stays loaded.
    """

    rewrites: ClassVar[bool] = True
    """True: this distinguishes it from a Splitter."""
    version: ClassVar[str] = "1"
    uses_gpu: bool = False
    workers: int | None = None
    """Instances that a machine runs at once: None, one for every core; 1 for a model that uses all cores itself."""

    def identity(self) -> dict[str, Any]:
        """Everything that its units depend on: version, checksums of its files. Known without loading a model."""
        return {"class": type(self).__name__, "version": self.version}

    @abstractmethod
    def rewrite(self, passages: Sequence[StoredPassage], tick: Tick = no_tick) -> Rewritten:
        """The units of every passage."""
