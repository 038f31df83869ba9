"""The contract of an engine: a batch of texts in, what a language model writes after each of them out.

An engine knows neither questions nor contexts, neither files nor tables. It is made from its `Options`, loads its model
by its first `complete`, and keeps it. No prompt ends a batch: one that is too long, or a request that fails, comes back
with its `error`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from configs.options import Computing
from configs.section import NOT_IN_FINGERPRINT, ModelName

Tick = Callable[[int, int], None]
"""Called with how many more prompts are answered and how many more tokens (prompt and completion) were computed."""


class EngineOptions(BaseModel):
    """What can be set of every engine. An engine's `Options` extend it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None, description="A directory, or the name that the server or the hub knows it by."
    )
    temperature: float = Field(0.1, ge=0, description="0: the most probable token, always.")
    max_tokens: int = Field(150, ge=1, description="Tokens of an answer, at most.")
    seed: int = Field(100, description="Of the sampling.")


class LocalOptions(EngineOptions, Computing):
    """What can be set of an engine that runs on this machine."""

    adapter: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None,
        description="A LoRA adapter for the model: retrobust-nq, retrobust-2wikihop, a Hugging Face name, or a "
        "directory.",
    )
    max_input_tokens: int | None = Field(
        None, ge=1, description="A longer prompt is an error row; default: what the model takes."
    )


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask for the probabilities of `tokens`, each one token of the model's vocabulary, at an output position from 0.

    `groups` of these tokens are looked at elsewhere, each where one of its tokens was written first; a group of which
    none was written has no probabilities.
    """

    tokens: tuple[str, ...]
    position: int = 0
    groups: tuple[tuple[str, ...], ...] = ()

    def places(self, ids: Mapping[str, int], written: Sequence[int]) -> dict[str, int]:
        """The output position at which each token is looked at. `ids`: the tokens' numbers in the vocabulary;
        `written`: the numbers of an answer's tokens, which may have ended before the position."""
        places = dict.fromkeys(self.tokens, self.position) if self.position < len(written) else {}
        for group in self.groups:
            numbers = {ids[token] for token in group}
            first = next((place for place, number in enumerate(written) if number in numbers), None)
            places = {token: place for token, place in places.items() if token not in group}
            places |= {} if first is None else dict.fromkeys(group, first)
        return places


@dataclass(frozen=True, slots=True)
class Completion:
    """What a prompt came to. Where `error` is not empty the text is, and `finish_reason` is "error".

    `prompt_tokens` and `completion_tokens` as the model counts them; `logprob`: of all completion tokens together
    (natural logarithm), None where it is not known; `seconds`: time the model took over this prompt: its share of the
    batch it was in, or the request's own time for a server; `probabilities`: of the probe's tokens.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    logprob: float | None = None
    finish_reason: str = "stop"
    error: str = ""
    probabilities: Mapping[str, float] = field(default_factory=dict)


class EngineUnavailable(ValueError):
    """An engine cannot work here: the message says what is missing and how to provide it."""


def no_tick(prompts: int, tokens: int) -> None:
    """Nobody watches."""


class Engine(ABC):
    """A class that has `Options`, which extend `EngineOptions`, and is made of an instance of them.

    `version`: raise it when the same input would give another output.
    """

    Options: ClassVar[type[EngineOptions]]
    version: ClassVar[str]
    secrets: ClassVar[Mapping[str, str]] = {}
    """Environment variables that it reads secrets from, each with the name of the Prefect block that may hold it."""
    uses_gpu: bool
    workers: int | None
    """How many of it a machine bears: None, one a core; 1 for an engine that uses all cores itself."""

    @abstractmethod
    def __init__(self, options: Any, section: str) -> None:
        """`options`: an instance of its `Options`; `section`: of the settings, for messages.

        Raises ConfigError, and EngineUnavailable where the model, the library or the server is missing, with the
        remedy."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What an answer depends on besides the options: the class, its version, checksums of the weights.

        Known without loading the model. {"class": "Transformers", "version": "1", "files": {"config.json": "…"}}
        """

    @abstractmethod
    def complete(self, prompts: Sequence[str], probe: Probe | None = None, tick: Tick = no_tick) -> list[Completion]:
        """What the model answers to each prompt, which it gets as one message of a user, in their order."""

    @property
    def vocabulary(self) -> Container[str] | None:
        """The tokens of the model, as its vocabulary has them; None where the engine cannot tell."""
        return None


def failed(error: str, prompt_tokens: int = 0, seconds: float = 0.0) -> Completion:
    """The row of a prompt that got no answer."""
    return Completion("", prompt_tokens, 0, seconds, finish_reason="error", error=error)


def sampling_seed(seed: int, prompt: str) -> int:
    """31 bits for a prompt's own random numbers: the same ones whatever else is in its batch, and no other prompt's."""
    return int.from_bytes(blake2b(f"{seed}\n{prompt}".encode(), digest_size=4).digest(), "big") >> 1
