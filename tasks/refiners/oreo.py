"""`oreo`: a small trained model writes an evidence text from a question's hits (Oreo, arXiv 2502.13019).

Retrieve, reconstruct, then generate: the first top_k hits, with their titles where refine.text shows these, are read
with the question, and what the policy writes greedily is the only context of the prompt; without a hit, or where
nothing is written, there is none. A copier writes a second text after the first, of the words that this one left. The
model is the bundled one, or what `vitalfew train oreo` wrote. Of `copier` (models/small/copier.py) every word is in
the hits, and the origin of a text is known, except of its titles.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.models.batches import computed, threads
from vitalfew.tasks.models.compiled import engine_of
from vitalfew.tasks.models.device import InBatches, require_device
from vitalfew.tasks.models.files import directory_of
from vitalfew.tasks.models.loading import loading
from vitalfew.tasks.models.presets import source_of
from vitalfew.tasks.models.readings import Reading, remembered
from vitalfew.tasks.models.small.policies import Shape, kind_of, policy_files, read_policy
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Context, Hit, Refined, Refiner, Retrieved, Vectors, Writing
from vitalfew.tasks.splitters.tokens import count_tokens, first

if TYPE_CHECKING:
    from vitalfew.tasks.models.small.policy import Drawn, Policy, PolicySource

TOGETHER = 16
"""Questions whose texts are written together."""

OF_A_COPIER = 2
"""Texts that a copier writes. Chosen on 170 questions of the articles that its weights were chosen by: one text answers
0.612 of them, two 0.641, three 0.635; five passages 0.618 (docs/results/oreo.md)."""


class Oreo(InBatches, Refiner):
    """A small trained model writes an evidence text from the hits, which replaces them (Oreo)."""

    class Options(Batching, Refiner.Options):
        model: Annotated[ModelName, NOT_IN_FINGERPRINT] = Field(
            "oreo",
            description="Policy: oreo for the bundled copier, or a directory that `vitalfew train oreo --out` wrote.",
        )
        max_input_tokens: int = Field(
            2048, ge=1, description="Maximum number of tokens of the hits; the last ones are left out."
        )
        texts: int | None = Field(
            None,
            ge=1,
            description="Texts per question; later texts use only the words that earlier ones left. Default: 2 with "
            "a copier, else 1.",
        )
        min_new_tokens: int = Field(0, ge=0, description="Minimum length of a text: words of a copier, else tokens.")
        max_new_tokens: int = Field(300, ge=1, description="Maximum length of a text: words of a copier, else tokens.")

    version: ClassVar[str] = "3"  # since 3, a budget cuts the origin too
    cpu_tokens: ClassVar[int] = 4096

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, FileNotFoundError, UnsupportedModel."""
        if options.min_new_tokens > options.max_new_tokens:
            raise ConfigError(
                f"refine.min_new_tokens must be at most refine.max_new_tokens, got {options.min_new_tokens} "
                f"and {options.max_new_tokens}"
            )
        self.options, self.directory = options, directory_of(source_of("evidence writer", options.model))
        copier = kind_of(self.directory) == "copier"
        self.texts = options.texts or (OF_A_COPIER if copier else 1)
        if self.texts > 1 and not copier:
            raise ConfigError(
                f"refine.texts={options.texts} needs a copier, but {self.directory} has an encoder-decoder, "
                "which would write the same text again: use refine.texts=1"
            )
        super().__init__(options)

    def files(self) -> dict[str, str]:
        return policy_files(self.directory)

    def identity(self) -> dict[str, Any]:
        engine = {"engine": engine_of(self.device_name, self.precision)} if kind_of(self.directory) == "copier" else {}
        return {"class": type(self).__name__, "version": self.version, "model": super().identity() | engine}

    @cached_property
    @loading()
    def policy(self) -> "Policy":
        import torch

        require_device(self.device, self.dtype, "refine")
        torch.set_num_threads(1)  # parallelism comes from workers
        shape = Shape(self.device, self.dtype, self.options.max_input_tokens, self.batch_tokens)
        return read_policy(self.directory, shape)

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        read = [list(own[: self.options.top_k]) for own in hits]
        texts = [[hit.label(self.options) + hit.text for hit in own] for own in read]
        due = [number for number, own in enumerate(texts) if any(map(str.strip, own))]
        asked = [(questions[number], *texts[number]) for number in due]
        found = self.policy.read([question for question, *_ in asked], [own for _, *own in asked]) if due else []
        sources = dict(zip(asked, found, strict=True))
        new: list[tuple[str, ...]] = []

        def write(some: Sequence[tuple[str, ...]]) -> list[Reading]:
            new.extend(some)
            return self._written([sources[request] for request in some], some, tick)

        # A budget cuts a text that is written: whatever it is, the text is written once.
        limits = {
            name: getattr(self.options, name) for name in ("max_input_tokens", "min_new_tokens", "max_new_tokens")
        }
        actions = remembered({**self.identity()["model"], "texts": self.texts, **limits}, asked, write, tick)
        tick(len(questions) - len(due), 0)
        made: list[list[Context]] = [[] for _ in questions]
        writings = [Writing()] * len(questions)
        for number, request, values in zip(due, asked, actions, strict=True):
            source = sources[request]
            drawn = [int(action) for action in values]
            made[number] = self._evidence(source, drawn, read[number])
            ended = drawn.count(self.policy.end) == self.texts
            writings[number] = Writing(source.cut > 0, "stop" if ended else "length")
        notes = {"empty": sum(not own for own in made), "cut": sum(source.cut > 0 for source in found)}
        return Refined(made, sum(sources[request].tokens for request in new), notes, writings)

    def _written(
        self, sources: "Sequence[PolicySource]", asked: Sequence[tuple[str, ...]], tick: Tick
    ) -> list[Reading]:
        """The actions that write a text, of every source."""
        import torch

        from vitalfew.tasks.models.small.policy import greedy

        # In an order of their own, so that what is in a batch does not depend on the order of the questions.
        order = sorted(range(len(sources)), key=lambda place: (sources[place].tokens, asked[place]))
        due = [order[start : start + TOGETHER] for start in range(0, len(order), TOGETHER)]
        lengths = self.options.max_new_tokens, self.options.min_new_tokens

        def write(some: list[int]) -> "list[Drawn]":
            with torch.inference_mode():
                memory = self.policy.encode([sources[place] for place in some])
                return greedy(self.policy, memory, *lengths, self.texts)

        at_once = 1 if self.uses_gpu else threads()
        found: dict[int, Reading] = {}
        for some, written in zip(due, computed(write, due, at_once), strict=True):
            for place, drawn in zip(some, written, strict=True):
                found[place] = Reading(np.array(drawn.actions, np.float32), sources[place].tokens)
            tick(len(some), sum(sources[place].tokens for place in some))
        return [found[place] for place in range(len(sources))]

    def _evidence(self, source: "PolicySource", actions: Sequence[int], hits: Sequence[Hit]) -> list[Context]:
        written = self.policy.write(source, actions)
        text = first(written.text, self.options.max_words, self.options.max_tokens)
        if not text:
            return []
        spans, at = [], 0
        for run in written.runs:
            hit, label = hits[run.chunk], hits[run.chunk].label(self.options)
            part = (label + hit.text)[run.start : run.end]
            at = written.text.index(part, at)
            shift = hit.start - len(label)
            start, end = max(hit.start, run.start + shift), run.start + shift + min(len(part), len(text) - at)
            if start < end and hit.start < hit.end:  # else a title, a rewritten hit, or what a budget has cut off
                spans.append((hit.passage_id, start, end))
            at += len(part)
        return [Context(text, count_tokens(text), tuple(spans))]
