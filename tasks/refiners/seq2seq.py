"""The base of refiners with a sequence-to-sequence model that writes one context from a question's hits.

Such a refiner states its model's presets, its limits, and its input (`frame`). New lines join the hits, best first,
each with its title where refine.text and refine.titles say so. If the input is too long for the model, the end of the
joined hits is cut at the end of a word, and the rest of the input stays whole. max_words and max_tokens limit the
model's output. If the model writes nothing, no context is passed on, and the question is answered without contexts.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from pydantic import ConfigDict

from configs.evaluation import RefineConfig
from configs.options import Rewriting
from tasks.models.seq2seq import Rewriter
from tasks.refiners.base import Evidence, Hit, Refined, Tick, Vectors, Writing, no_tick
from tasks.refiners.model import ModelRefiner
from tasks.splitters.tokens import count_tokens, first


class Seq2SeqRefiner(ModelRefiner[Rewriter], ABC):
    """Base of refiners that rewrite: one context, or none, for every question."""

    class Options(Rewriting, RefineConfig):
        model_config = ConfigDict(extra="forbid")

    name: ClassVar[str]
    version: ClassVar[str]
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
        )
        super().__init__(options, rewriter)

    @abstractmethod
    def frame(self, question: str, documents: str) -> str:
        """The model's input."""

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        places = [place for place, question_hits in enumerate(hits) if question_hits]
        tick(len(questions) - len(places), 0)
        documents = [self._documents(hits[place]) for place in places]
        whole = [self.frame(questions[place], text) for place, text in zip(places, documents, strict=True)]
        inputs = [
            self.model.fitted(text, partial(self.frame, questions[place]))
            for place, text in zip(places, documents, strict=True)
        ]
        completions = self.model.rewrite(inputs, tick)
        contexts: list[list[Evidence]] = [[] for _ in questions]
        writings = [Writing()] * len(questions)
        for place, completion, read, full in zip(places, completions, inputs, whole, strict=True):
            writings[place] = Writing(read != full, completion.finish_reason)
            if text := first(completion.text, self.options.max_words, self.options.max_tokens).strip():
                contexts[place] = [Evidence(text, count_tokens(text))]
        notes = {
            "cut_inputs": sum(writing.cut for writing in writings),
            "empty": sum(not evidence for evidence in contexts),
        }
        tokens = sum(completion.prompt_tokens + completion.completion_tokens for completion in completions)
        return Refined(contexts, tokens, notes, writings)

    def _documents(self, hits: Sequence[Hit]) -> str:
        return "\n".join(hit.shown(self.options) for hit in hits[: self.options.top_k])
