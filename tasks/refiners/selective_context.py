"""`selective_context`: what a language model could have guessed of the hits is dropped (Selective-Context).

Li et al., 2023 (arXiv 2310.06201, section 3): a causal model gives every token its self-information, −ln of its
probability after what stands before it in its hit. That of a lexical unit, a sentence, a phrase or a word, is the sum
over its tokens (equation 5). Units below a percentile of all units of the question's hits are dropped, and the others
stand in their order. Where a budget does not take all of them, those with the most self-information are taken.

Deviations: phrases are found by spelling, without a parser: one ends at a punctuation mark, and before a function word
that follows another kind of word; sentences are the index's. A title is read before its hit, and stays whole where
refine.text and refine.titles show it. What a model rewrote has no place in its passage, and is one unit.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from configs.evaluation import RefineConfig
from configs.options import CausalModel
from tasks.encoders import titles
from tasks.models.surprise import Surprise
from tasks.refiners.base import Hit, Refined, Tick, Vectors, no_tick
from tasks.refiners.model import ModelRefiner
from tasks.refiners.progress import Counted
from tasks.refiners.sentences import Sentence, contexts, sentences

_ENGLISH = """
a about after against although an and any are as at be because been before between both but by can could did do does
during each for from had has have he her his how if in into is it its may might must nor not of on or over shall she
should since so such than that the their them then there these they this those through to under until was we were what
when where whether which while who whom whose why will with without would yet you your
"""
FUNCTION_WORDS = frozenset(_ENGLISH.split())
_WORD = re.compile(r"\S+\s*")


class SelectiveContext(ModelRefiner[Surprise]):
    """Words, phrases or sentences that a causal model could have guessed are dropped (Selective-Context)."""

    class Options(CausalModel, RefineConfig):
        model_config = ConfigDict(extra="forbid")

        unit: Literal["word", "phrase", "sentence"] = Field("phrase", description="What is kept or dropped as a whole.")
        percentile: float = Field(
            50.0, ge=0, le=100, description="Units with less self-information than this percentile has are dropped."
        )

    example: ClassVar[tuple[str, ...]] = ("refine.model=smollm2", "refine.percentile=80")
    version: ClassVar[str] = "1"
    options: Options

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, EngineUnavailable."""
        super().__init__(options, Surprise(options.model, options, "refine"))
        self.needs_sentences = options.unit == "sentence"

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        count = Counted(tick)
        read = [own[: self.options.top_k] for own in hits]
        distinct = [*dict.fromkeys((hit.title, hit.text) for own in read for hit in own)]
        information = dict(zip(distinct, self._information(distinct, count), strict=True))
        made = []
        notes = {"units": 0, "kept": 0}
        for own in read:
            units = [unit for number, hit in enumerate(own) for unit in self._units(hit, number)]
            scores = [_sum(information[own[unit.hit].title, own[unit.hit].text], own[unit.hit], unit) for unit in units]
            least = np.percentile(scores, self.options.percentile) if scores else 0.0
            passing = [(score, unit) for score, unit in zip(scores, units, strict=True) if score >= least]
            passing.sort(key=itemgetter(0), reverse=True)
            made.append(contexts(own, [unit for _, unit in passing], self.options))
            notes["units"] += len(units)
            notes["kept"] += len(passing)
            tick(1, 0)
        return Refined(made, count.tokens, notes)

    def _information(self, texts: Sequence[tuple[str, str]], count: Counted) -> list[list[tuple[int, float]]]:
        """For every title and text, the tokens of the text: where the last character of each stands in it, and its
        self-information. What is too long for the model is read in parts, each after what stands before it."""
        leads = [titles.lead(title) for title, _ in texts]
        encoded = self.model.places([lead + text for lead, (_, text) in zip(leads, texts, strict=True)])
        size = max(1, self.model.limit // 2)
        parts = [(text, at) for text, (ids, _) in enumerate(encoded) for at in range(0, len(ids), size)]
        rows = [(encoded[text][0][:at], encoded[text][0][at : at + size]) for text, at in parts]
        found: list[list[tuple[int, float]]] = [[] for _ in texts]
        for (text, at), surprise in zip(parts, self.model.of(rows, count), strict=True):
            ends = encoded[text][1][at : at + size]
            found[text] += [
                (end - 1 - len(leads[text]), value) for end, value in zip(ends, surprise.tolist(), strict=True)
            ]
        return found

    def _units(self, hit: Hit, number: int) -> list[Sentence]:
        """A hit's units in their order, without a gap: white space belongs to the unit before it."""
        if self.options.unit == "sentence" or hit.start == hit.end:
            return sentences(hit, number)
        words = [*_WORD.finditer(hit.text)]
        starts = [0, *(word.start() for before, word in pairwise(words) if self._parts(before[0], word[0]))]
        return [
            Sentence(number, (hit.start + start, hit.start + end), hit.text[start:end])
            for start, end in pairwise([*starts, len(hit.text)])
        ]

    def _parts(self, before: str, word: str) -> bool:
        """Whether a unit begins with this word."""
        before, word = before.rstrip(), word.rstrip()
        if self.options.unit == "word" or not before[-1].isalnum():
            return True
        return word.lower() in FUNCTION_WORDS and before.lower() not in FUNCTION_WORDS


def _sum(information: Sequence[tuple[int, float]], hit: Hit, unit: Sentence) -> float:
    """The self-information of a unit; `information`: of its hit's tokens."""
    start, end = (place - hit.start for place in unit.span) if unit.span[0] < unit.span[1] else (0, len(hit.text))
    return sum(value for place, value in information if start <= place < end)
