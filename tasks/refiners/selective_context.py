"""`selective_context`: what a language model could have guessed of the hits is dropped (Selective-Context).

Li et al., 2023 (arXiv 2310.06201, section 3): a causal model gives every token its self-information, −ln of its
probability after what comes before it in its hit. Units, which are sentences, phrases or words, have the mean of their
tokens', and those below a percentile of all units of the question's hits are dropped. With a budget and no percentile,
the units with the most self-information fill it. As in the authors' package the mean is taken, where equation 5 has the
sum, which would favour long units.

Deviations: a hit is read as a whole, its title first, as equation 1 has it; the package reads every sentence by itself.
Spelling decides on phrases, without a parser: one ends at a punctuation mark, and before a function word that follows
another kind of word. The package's smallest unit is a token, ours a word. Sentences are the index's. A title stays
whole where refine.text and refine.titles show it. What a model rewrote is one unit.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from vitalfew.configs.options import CausalModel
from vitalfew.tasks.encoders import titles
from vitalfew.tasks.models.causal.surprise import Surprise, Told
from vitalfew.tasks.models.ticks import Counted, Tick, tokens_of
from vitalfew.tasks.refiners.base import Hit, Refiner, Retrieved
from vitalfew.tasks.refiners.sentences import Scored, Sentence, SentenceRefiner, Units, ranked, sentences

_ENGLISH = """
a about after against although an and any are as at be because been before between both but by can could did do does
during each for from had has have he her his how if in into is it its may might must nor not of on or over shall she
should since so such than that the their them then there these they this those through to under until was we were what
when where whether which while who whom whose why will with without would yet you your
"""
FUNCTION_WORDS = frozenset(_ENGLISH.split())
_WORD = re.compile(r"\S+\s*")
NATURAL = 50.0
"""The percentile where neither it nor a budget is named."""


class SelectiveContext(SentenceRefiner):
    """A causal model drops the words, phrases or sentences that it could have guessed (Selective-Context)."""

    class Options(CausalModel, Refiner.Options):
        unit: Literal["word", "phrase", "sentence"] = Field("phrase", description="Unit to keep or drop as a whole.")
        percentile: float | None = Field(
            None,
            ge=0,
            le=100,
            description="Percentile of self-information below which units are dropped. Default: 50. If max_words or "
            "max_tokens is set: none, and the units with the most self-information fill that limit.",
        )

        @property
        def needs_sentences(self) -> bool:
            """As `Refiner.needs_sentences`."""
            return self.unit == "sentence"

    example: ClassVar[tuple[str, ...]] = ("refine.model=smollm2", "refine.percentile=80")
    version: ClassVar[str] = "2"
    counted: ClassVar[tuple[str, ...]] = ("units", "kept")

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, EngineUnavailable."""
        super().__init__(options, Surprise(options.model, options, "refine"))
        self.needs_sentences = options.needs_sentences

    def scores(
        self, questions: Sequence[str], hits: Retrieved, units: Units, tick: Tick
    ) -> tuple[list[list[float]], int]:
        count = Counted(tokens_of(tick))
        texts = {hit: hit.titled for own in hits for hit in own}
        distinct = [*dict.fromkeys(texts.values())]
        told = dict(zip(distinct, self.model.read([("", text) for text in distinct], count), strict=True))
        tick(len(questions), 0)
        found = [
            [_mean(told[texts[own[unit.hit]]], own[unit.hit], unit) for unit in of_own]
            for own, of_own in zip(hits, units, strict=True)
        ]
        return found, count.tokens

    def kept(self, scored: Sequence[Scored]) -> list[Sentence]:
        """The units that reach the percentile, those with the most self-information first."""
        percentile = self.options.percentile
        if percentile is None:
            percentile = 0.0 if self.options.has_budget else NATURAL
        least = np.percentile([score for score, _ in scored], percentile) if scored else 0.0
        return [unit for score, unit in ranked(scored) if score >= least]

    def units(self, hits: Sequence[Hit]) -> list[Sentence]:
        """The units in their order, without a gap in a hit: white space belongs to the unit before it."""
        units = []
        for number, hit in enumerate(hits):
            if self.options.unit == "sentence" or hit.start == hit.end:
                units += [unit for unit in sentences(hit, number) if unit.text.strip()]
            elif words := [*_WORD.finditer(hit.text)]:
                starts = [0, *(word.start() for before, word in pairwise(words) if self._parts(before[0], word[0]))]
                for start, end in pairwise([*starts, len(hit.text)]):
                    units.append(Sentence(number, (hit.start + start, hit.start + end), hit.text[start:end]))
        return units

    def _parts(self, before: str, word: str) -> bool:
        """Whether a unit begins with this word."""
        before, word = before.rstrip(), word.rstrip()
        if self.options.unit == "word" or not before[-1].isalnum():
            return True
        return word.lower() in FUNCTION_WORDS and before.lower() not in FUNCTION_WORDS


def _mean(read: Told, hit: Hit, unit: Sentence) -> float:
    """The mean self-information of the tokens that end in a unit. `read`: the hit's title and text."""
    ends, surprise = read
    start, end = (place - hit.start for place in unit.span) if unit.span[0] < unit.span[1] else (0, len(hit.text))
    lead = len(titles.lead(hit.title))
    own = surprise[slice(*np.searchsorted(ends, (lead + start, lead + end), side="right"))]
    return float(own.mean(dtype=np.float64)) if own.size else 0.0
