"""The contract of a generator: a batch of prompts in, an answer or an error for each out.

A generator knows neither files nor tables. It is made from its `Options`, loads its model by its first `generate`, and
keeps it. No prompt ends a batch: one that is too long, or a request that fails, comes back with its `error`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tasks.models.engines.base import Completion, Engine, Tick, no_tick


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request. `text` is the rendered prompt (one user message); an extractive reader looks at the question and the
    contexts themselves, best first."""

    text: str
    question: str
    contexts: tuple[str, ...] = ()


class Generator(ABC):
    """A class that has `Options`, a GenerateConfig with what can be set of it besides, and is made of an instance of
    them. `version`: raise it when the same input would give another output."""

    version: ClassVar[str]
    prompt: ClassVar[str] = "short_answer"
    """The prompt of configs/prompts that it is asked with by default, where there are contexts."""
    prompt_without_contexts: ClassVar[str] = "no_context"
    uses_gpu: bool
    workers: int | None
    """How many of it a machine bears: None, one a core; 1 for an engine that uses all cores itself."""

    @staticmethod
    def secrets() -> Mapping[str, str]:
        """Environment variables that it reads secrets from, with the names of the Prefect blocks that may hold them."""
        return {}

    @abstractmethod
    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`.

        Raises EngineUnavailable where the model, the library or the server is missing, with the remedy."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What an answer depends on besides the options: the class, its version, checksums of the weights.

        Known without loading the model. {"class": "Reader", "version": "1", "files": {"adapter.safetensors": "…"}}
        """

    def without_contexts(self, prompts: Sequence[Prompt]) -> tuple[list[bool], int]:
        """Whether each of these questions is answered without contexts although there may be some, and the tokens it
        took to find out. `prompts`: those that the questions have without contexts."""
        return [False] * len(prompts), 0

    @abstractmethod
    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        """An answer for each prompt, in their order."""


class ByEngine(Generator):
    """A generator that lets an engine answer the rendered prompts."""

    engine: Engine

    def use(self, engine: Engine) -> None:
        self.engine = engine
        self.uses_gpu, self.workers = engine.uses_gpu, engine.workers

    def identity(self) -> dict[str, Any]:
        return self.engine.identity()

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        return self.engine.complete([prompt.text for prompt in prompts], tick=tick)
