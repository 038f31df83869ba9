"""The base of refiners with a language model that writes one context from a question's hits.

A kind of model is a subclass (`seq2seq`, `causal`); a refiner states the presets of its model, its limits, and its
input (`frame`). New lines join the hits, best first, each with its title where refine.text and refine.titles say so;
hits without text are left out. If the input is too long for the model, the end of the joined hits is cut at the end of
a word, and the rest of the input stays whole. max_words and max_tokens limit what the model wrote. If that is nothing,
or there was nothing to read, no context is passed on, and the question is answered without contexts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from pydantic import ConfigDict

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.options import Rewriting
from vitalfew.tasks.models.causal.rewriter import Rewriter
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Evidence, Hit, Refined, Vectors, Writing
from vitalfew.tasks.refiners.model import ModelRefiner
from vitalfew.tasks.splitters.tokens import count_tokens, first


class RewritingRefiner(ModelRefiner[Rewriter], ABC):
    """Base of refiners that rewrite: one context, or none, for every question."""

    class Options(Rewriting, RefineConfig):
        model_config = ConfigDict(extra="forbid")

    name: ClassVar[str]
    version: ClassVar[str]
    causal: ClassVar[bool]
    presets: ClassVar[Mapping[str, str]]
    """Hugging Face names of the published models, by the short names that refine.model takes."""
    max_new_tokens: ClassVar[int]
    max_input_tokens: ClassVar[int]
    options: Options

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, EngineUnavailable."""
        rewriter = Rewriter(
            options,
            "refine",
            method=self.name,
            presets=self.presets,
            max_new_tokens=self.max_new_tokens,
            max_input_tokens=self.max_input_tokens,
            causal=self.causal,
        )
        super().__init__(options, rewriter)

    @abstractmethod
    def frame(self, question: str, documents: str) -> str:
        """The model's input."""

    def read(self, output: str) -> str:
        """The context in what the model wrote."""
        return output

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        documents = ["\n".join(self.shown(own)) for own in hits]
        places = [place for place, text in enumerate(documents) if text]
        tick(len(questions) - len(places), 0)
        inputs = [self.fitted(documents[place], partial(self.frame, questions[place])) for place in places]
        completions = self.model.rewrite([text for text, _ in inputs], tick)
        texts, writings = [""] * len(questions), [Writing()] * len(questions)
        for place, (_, cut), completion in zip(places, inputs, completions, strict=True):
            texts[place] = self.read(completion.text)
            writings[place] = Writing(cut, completion.finish_reason)
        tokens = sum(completion.prompt_tokens + completion.completion_tokens for completion in completions)
        return self.refined(texts, writings, tokens)

    def shown(self, hits: Sequence[Hit]) -> list[str]:
        """What the model reads of the hits, one by one."""
        return [hit.shown(self.options) for hit in hits[: self.options.top_k] if hit.text.strip()]

    def fitted(self, documents: str, frame: Callable[[str], str]) -> tuple[str, bool]:
        """The model's input, and whether the documents were cut for it."""
        made = self.model.fitted(documents, frame)
        return made, made != frame(documents)

    def refined(
        self, texts: Sequence[str], writings: Sequence[Writing], tokens: int, notes: Mapping[str, int] | None = None
    ) -> Refined:
        """The contexts of the texts that were written, one for each question; an empty one is no context."""
        kept = [first(text, self.options.max_words, self.options.max_tokens).strip() for text in texts]
        contexts = [[Evidence(text, count_tokens(text))] if text else [] for text in kept]
        own = {"cut_inputs": sum(writing.cut for writing in writings), "empty": sum(not text for text in kept)}
        return Refined(contexts, tokens, {**own, **(notes or {})}, writings)
