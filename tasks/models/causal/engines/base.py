"""The contract of an engine: it takes a batch of prompts and returns a language model's completions.

An engine knows neither questions nor contexts, neither files nor tables. Its constructor takes its `Options`; its first
`complete` loads the model, which then stays loaded. No prompt ends a batch: one that is too long, or that a server
refuses, gives a completion with an `error`. Failures that may pass are raised after the whole batch (remote.py).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching, Computing, ServerOptions
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.models.ticks import Tick, no_tick

JsonSchema = Mapping[str, Any]
"""A schema of JSON, as `model_json_schema` of Pydantic gives it."""


class EngineOptions(BaseModel, extra="forbid", frozen=True):
    """The settings of every engine. An engine's `Options` extend them."""

    model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None, description="Model: a directory, or its name on the server or the hub."
    )
    temperature: float = Field(0.1, ge=0, description="Sampling temperature; 0: always the most probable token.")
    max_tokens: int = Field(150, ge=1, description="Maximum number of tokens in an answer.")
    seed: int = Field(100, description="Seed of the sampling.")


class LocalOptions(EngineOptions, Computing):
    """The settings of an engine that runs on this machine."""

    model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None,
        description="Model: a directory, a Hugging Face name, or smollm2, vicuna-7b, vicuna-13b, "
        "llama-2-7b-chat, llama-2-13b-chat; `vitalfew models` shows where a model is.",
    )
    adapter: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None,
        description="LoRA adapter for the model: retrobust-nq, retrobust-hotpotqa, retrobust-2wikihop, a Hugging "
        "Face name, or a directory.",
    )
    max_input_tokens: int | None = Field(
        None,
        ge=1,
        description="Maximum number of tokens in a prompt; a longer prompt becomes an error row. Default: the "
        "limit of the model.",
    )


class EngineChoice(Batching, ServerOptions):
    """The settings of a method that asks an instruct model: for replies in a form, unless it says otherwise."""

    engine: Annotated[str, NOT_IN_FINGERPRINT] = Field(
        "transformers",
        description="Engine that runs the model: transformers, vllm, or openai, which gets a JSON schema for the "
        "reply.",
    )
    model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
        None, description="Instruct model: a directory, or its name on the server or the hub."
    )


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask for the probabilities of `tokens`, entries of the model's vocabulary, at an output position (from 0).

    `groups` of these tokens are read elsewhere: a group at the position where the model first wrote one of its tokens.
    A group without a written token has no probabilities. `alone`: nothing is asked for besides, so that an answer ends
    at the position.
    """

    tokens: tuple[str, ...]
    position: int = 0
    groups: tuple[tuple[str, ...], ...] = ()
    alone: bool = False

    def limit(self, max_tokens: int) -> int:
        """Return the maximum number of tokens to write."""
        return min(max_tokens, self.position + 1) if self.alone else max_tokens

    def check(self, max_tokens: int) -> None:
        """Raises ConfigError for a position that an answer of so many tokens does not reach."""
        if self.position >= max_tokens:
            raise ConfigError(
                f"the position of a probe must be below {max_tokens}, the tokens of an answer, got {self.position}"
            )

    def places(self, ids: Mapping[str, int], written: Sequence[int]) -> dict[str, int]:
        """Return for the tokens the output positions at which their probability is read. `ids`: the tokens' numbers in
        the vocabulary; `written`: the numbers of an answer's tokens; the answer may end before the position."""
        places = dict.fromkeys(self.tokens, self.position) if self.position < len(written) else {}
        for group in self.groups:
            numbers = {ids[token] for token in group}
            first = next((place for place, number in enumerate(written) if number in numbers), None)
            places = {token: place for token, place in places.items() if token not in group}
            places |= {} if first is None else dict.fromkeys(group, first)
        return places


@dataclass(frozen=True, slots=True)
class Completion:
    """The result of a prompt. If `error` is not empty, the text is empty and `finish_reason` is "error".

    `prompt_tokens` and `completion_tokens`: as the model counts them; `logprob`: of all completion tokens together
    (natural logarithm), None if unknown; `seconds`: the prompt's share of its batch's time, or the time of the request
    for a server; `probabilities`: of the probe's tokens; `finish_reason`: "stop", "length" (cut, perhaps within a
    thought, so that there is no text), "refusal", "content_filter" or "error".

    Of a server: `cached_tokens`: those of `prompt_tokens` that it had read before; `thought_tokens`: those of
    `completion_tokens` that are no part of the text, None if it does not say; `left_out`: the parameters that it
    refused, and answered without.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    logprob: float | None = None
    finish_reason: str = "stop"
    error: str = ""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    cached_tokens: int = 0
    thought_tokens: int | None = None
    left_out: Sequence[str] = ()

    @property
    def computed(self) -> int:
        """The tokens that it took."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Elsewhere(Completion):
    """An answer of another system, with what came with it. `contexts`: that it had, best first, None if it does not
    say; `usd`: its price, None if unknown; `unknown`: those of the fields of `Completion` that it does not say;
    `recorded`: it was given before, so that nothing was computed for it now."""

    contexts: tuple[str, ...] | None = None
    usd: float | None = None
    unknown: tuple[str, ...] = ()
    recorded: bool = False

    @property
    def computed(self) -> int:
        return 0 if self.recorded else self.prompt_tokens + self.completion_tokens


class EngineUnavailable(ValueError):
    """An engine cannot work here; the message says what is missing and how to provide it."""


class Engine(ABC):
    """A class with `Options`, which extend `EngineOptions`; the constructor takes an instance of them.

    `version`: raise it when the same input would give a different output.
    """

    Options: ClassVar[type[EngineOptions]]
    options: EngineOptions
    version: ClassVar[str]
    uses_gpu: bool
    workers: int | None
    """Instances that a machine runs at once: None, one for every core; 1 for an engine that uses all cores itself."""

    @staticmethod
    def secrets() -> Mapping[str, str]:
        """Environment variables that hold its secrets, with the names of the Prefect blocks that may hold them
        instead."""
        return {}

    @abstractmethod
    def __init__(self, options: Any, section: str) -> None:
        """`options`: an instance of its `Options`; `section`: of the settings, for messages.

        Raises ConfigError, and EngineUnavailable, with the remedy, if the model, the library or the server is missing.
        """

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Everything that an answer depends on besides the options: the class, its version, checksums of the weights.

        Known without loading the model. {"class": "Transformers", "version": "1", "files": {"config.json": "…"}}
        """

    @abstractmethod
    def complete(
        self, prompts: Sequence[str], probe: Probe | None = None, tick: Tick = no_tick, form: JsonSchema | None = None
    ) -> list[Completion]:
        """Answer the prompts, in their order. A prompt is one user message. `form`: the schema that answers are to
        follow; an engine that cannot hold its model to one disregards it, so whoever asks reads the answers with care.
        """

    @property
    def vocabulary(self) -> Container[str] | None:
        """The entries of the model's vocabulary; None if the engine does not know them."""
        return None


_THOUGHT = re.compile(r"<(think|thinking|thought)>.*?</\1>", re.DOTALL)
_BEGUN = re.compile(r"\s*<(?:think|thinking|thought)>")


def without_thought(text: str) -> str | None:
    """Return the answer that follows a model's thoughts; None where a thought has no end, so that there is no answer.

    The beginning of a thought may be in the prompt's template, and only its end in the text."""
    answer = _THOUGHT.sub("", text).rpartition("</think>")[2]
    return None if _BEGUN.match(answer) else answer.strip()


def failed(error: str, prompt_tokens: int = 0, seconds: float = 0.0) -> Completion:
    """The completion of a prompt without an answer."""
    return Completion("", prompt_tokens, 0, seconds, finish_reason="error", error=error)


def sampling_seed(seed: int, prompt: str) -> int:
    """Return the 31-bit seed of a prompt's random numbers, which do not depend on the other prompts of its batch."""
    return int.from_bytes(blake2b(f"{seed}\n{prompt}".encode(), digest_size=4).digest(), "big") >> 1
