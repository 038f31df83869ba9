"""The contract of a generator: a batch of prompts in, an answer or an error for every prompt out.

A generator knows neither files nor tables. It is made from its `Options`, loads its model by its first `generate`, and
keeps it. No prompt ends a batch: one that is too long, or a request that fails, comes back with its `error`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pydantic import Field

from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.tasks.models.causal.engines.base import Completion, Engine
from vitalfew.tasks.models.ticks import Tick, no_tick

CUT, REFUSED = "cut", "refused"
"""Notes of a manifest: how many answers the limit of tokens cut, and how many the model or a filter refused."""


@dataclass(frozen=True, slots=True)
class Rating:
    """A generator's rating of a context. `rank`: its place in the prompt, from 1; `score`: 0 to 1; `kept`: whether the
    answer is read from it; `tokens`: its length, as the model counts them."""

    rank: int
    score: float
    kept: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request. `text` is the rendered prompt (one user message); an extractive reader looks at the question and the
    contexts themselves, best first. `remembered`: for every context the rating that an earlier run gave it, or None;
    empty: no context has a rating. `scores`: of the contexts, by retriever or refiner; empty where one is unknown, or
    the generator does not ask for them. `name`: the question's id in its source, for a system that is elsewhere."""

    text: str
    question: str
    contexts: tuple[str, ...] = ()
    remembered: tuple[Rating | None, ...] = ()
    scores: tuple[float, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Stepwise(Completion):
    """A completion with the tokens and seconds of its steps, of a generator that rates contexts.

    `prefill_tokens`: tokens that the model read, counted as often as it read them; `kv_tokens`: tokens of the cache
    that the answer is written from, without the control that asks for it. Seconds: `init`: until the model begins;
    `prefill`: until the first token, None where remembered ratings left out a part; `copy`: to put keys and values of
    the kept contexts together; `decode`: for all further tokens."""

    prefill_tokens: int | None = None
    kv_tokens: int | None = None
    init_seconds: float | None = None
    prefill_seconds: float | None = None
    copy_seconds: float | None = None
    decode_seconds: float | None = None
    ratings: tuple[Rating, ...] = ()

    @property
    def computed(self) -> int:
        """The tokens that it took: some contexts are read several times, others not at all."""
        read = self.prompt_tokens if self.prefill_tokens is None else self.prefill_tokens
        return read + self.completion_tokens

    @classmethod
    def of(cls, completion: Completion, **steps: Any) -> "Stepwise":
        """Add steps to a completion."""
        given = {name: getattr(completion, name) for name in Completion.__dataclass_fields__}
        return cls(**{**given, **steps})

    @classmethod
    def restored(cls, ratings: Sequence[Mapping[str, Any]] = (), **fields: Any) -> "Stepwise":
        """Make one of its fields as plain JSON."""
        return cls(**fields, ratings=tuple(Rating(**each) for each in ratings))


class Generator(ABC):
    """The base of generators. `Options`: a GenerateConfig with the generator's further settings."""

    class Options(GenerateConfig, extra="forbid"):
        pass

    version: ClassVar[str] = "1"
    """Raise it when the same input would give another output."""
    prompt: ClassVar[str] = "short_answer"
    """The prompt of configs/prompts that it is asked with by default, with contexts and without."""
    needs_scores: bool = False
    """Its prompts are to have the scores of their contexts."""
    elsewhere: ClassVar[bool] = False
    """Another system answers, which finds contexts by itself: it gives `Elsewhere`, and its methods search nothing."""
    uses_gpu: bool = False
    workers: int | None = None
    """Instances that a machine runs at once: None, one for every core; 1 for an engine that uses all cores itself."""

    @staticmethod
    def secrets() -> Mapping[str, str]:
        """Environment variables that it reads secrets from, with the names of the Prefect blocks that may hold them."""
        return {}

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`.

        Raises EngineUnavailable where the model, the library or the server is missing, with the remedy."""
        self.options = options

    def identity(self) -> dict[str, Any]:
        """Everything that an answer depends on besides the options: the class, its version, checksums of the weights.

        Known without loading the model. {"class": "Reader", "version": "1", "files": {"adapter.safetensors": "…"}}
        `ratings` in it is everything that a context's rating depends on besides the question and the context.
        """
        return {"class": type(self).__name__, "version": self.version}

    def rated(self, prompt: Prompt) -> tuple[Rating, ...]:
        """The ratings of all its contexts, with what is kept by them; empty where one is not remembered, and for a
        generator that rates nothing."""
        return ()

    def decisive(self, prompt: Prompt) -> tuple[str, ...] | None:
        """The texts that decide the answer: two prompts that have them in common are answered once. None: that is not
        known before the contexts are rated."""
        return prompt.text, prompt.question, *prompt.contexts

    def without_contexts(self, prompts: Sequence[Prompt]) -> tuple[list[bool], int]:
        """Decide which questions to answer without contexts although there may be some; and the tokens that the
        decision took. `prompts`: those that the questions have without contexts."""
        return [False] * len(prompts), 0

    @abstractmethod
    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        """Answer the prompts, in their order."""


class WithEngine(Generator):
    """A generator whose model runs on an engine."""

    def __init__(self, options: Any, engine: Any) -> None:
        super().__init__(options)
        self.engine = engine
        self.uses_gpu, self.workers = engine.uses_gpu, engine.workers

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "engine": self.engine.identity()}


class ByEngine(WithEngine):
    """A generator that lets an engine answer the rendered prompts, in sentences unless the settings name another
    prompt. `runs_on`: the engine's class."""

    class Options(Generator.Options):
        lines: int | None = Field(
            None,
            ge=1,
            description="Lines of the model's output to keep as the answer: 1 drops what a model adds below it. "
            "Dropped tokens still count as cost. Default: all lines.",
        )

    engine: Engine
    runs_on: ClassVar[type[Engine]]
    prompt: ClassVar[str] = "sentence_answer"

    def __init__(self, options: Any) -> None:
        super().__init__(options, self.runs_on(options, "generate"))

    def identity(self) -> dict[str, Any]:
        return self.engine.identity()

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        completions = self.engine.complete([prompt.text for prompt in prompts], tick=tick)
        if (lines := self.options.lines) is None:
            return completions
        return [replace(each, text="\n".join(each.text.splitlines()[:lines]).strip()) for each in completions]
