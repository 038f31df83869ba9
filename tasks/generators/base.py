"""The contract of a generator: a batch of prompts in, an answer or an error for each out.

A generator knows neither files nor tables. It is made from a `Generate` configuration, loads its model by its first
`generate`, and keeps it. No prompt ends a batch: one that is too long, or a request that fails, comes back with its
`error`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, Protocol

from configs.evaluation import GenerateConfig

Tick = Callable[[int, int], None]
"""Called with how many more prompts are answered and how many more tokens (prompt and completion) were computed."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request. `text` is the rendered prompt (one user message); an extractive reader looks at the question and the
    contexts themselves, best first."""

    text: str
    question: str
    contexts: tuple[str, ...] = ()


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
class Generation:
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


class Generator(Protocol):
    """`version`: raise it when the same input would give another output."""

    version: ClassVar[str]
    uses_gpu: bool
    # takes_adapter: ClassVar[bool] = True, where it can put generate.adapter on its model
    workers: int | None
    """How many of it a machine bears: None, one a core; 1 for an engine that uses all cores itself."""

    def __init__(self, config: GenerateConfig) -> None:
        """Raises GeneratorUnavailable where the model, the library or the server is missing, with the remedy."""
        ...

    def identity(self) -> dict[str, Any]:
        """What an answer depends on besides the configuration: the class, its version, checksums of the weights.

        Known without loading the model. {"class": "Reader", "version": "1", "files": {"adapter.safetensors": "…"}}
        """
        ...

    def generate(self, prompts: Sequence[Prompt], probe: Probe | None = None, tick: Tick = ...) -> list[Generation]:
        """An answer for each prompt, in their order."""
        ...


class GeneratorUnavailable(ValueError):
    """A generator cannot work here: the message says what is missing and how to provide it."""


def failed(error: str, prompt_tokens: int = 0, seconds: float = 0.0) -> Generation:
    """The row of a prompt that got no answer."""
    return Generation("", prompt_tokens, 0, seconds, finish_reason="error", error=error)


def no_tick(prompts: int, tokens: int) -> None:
    """Nobody watches."""


def sampling_seed(seed: int, prompt: str) -> int:
    """31 bits for a prompt's own random numbers: the same ones whatever else is in its batch, and no other prompt's."""
    return int.from_bytes(blake2b(f"{seed}\n{prompt}".encode(), digest_size=4).digest(), "big") >> 1
