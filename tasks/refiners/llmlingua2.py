"""`llmlingua2`: a token classifier says which words of the hits to keep, whatever the question (LLMLingua-2).

Pan et al., 2024 (arXiv 2403.12968, section 4): an encoder gives every token a probability of being kept, a word has the
mean of its tokens', and the words with the highest stay, in their order, up to the share refine.rate of the tokens of a
question's hits. With a budget and no rate, the best words fill it.

Words, the tokens that the share is of, and blanks between what is left are those of the authors' package
(tasks/models/small/token_classifier.py): a punctuation mark stands right after the word that is left before it.

Deviations: the share is of all hits of a question, where the package takes it of every 512 tokens, and one percent
more; of equal words the first stays, and one word in any case; a long text is cut into parts at the model's limit, not
at a full stop; no marks or numbers are kept by force, as the package can. A title that is shown stays whole.

The published checkpoint, microsoft/llmlingua-2-xlm-roberta-large-meetingbank, was not at hand: what is here was run
with models of its architecture and of BERT's that have random weights, and never with it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.models.readings import settled
from vitalfew.tasks.models.small.pairs import PairReading
from vitalfew.tasks.models.small.token_classifier import TokenClassifier, Word
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import (
    Budget,
    Context,
    Hit,
    ModelRefiner,
    Refined,
    Refiner,
    Retrieved,
    Vectors,
    answered,
)
from vitalfew.tasks.splitters.tokens import count_tokens

NATURAL = 0.33
"""The rate where neither it nor a budget is named."""


class ScoredWord(NamedTuple):
    """`hit`: the number of its hit, in whose text `place` is; `keep`: its probability."""

    hit: int
    place: Word
    keep: float


class LLMLingua2(ModelRefiner):
    """A token classifier keeps a share of the hits' words, those most worth keeping (LLMLingua-2)."""

    class Options(Batching, Refiner.Options):
        model: Annotated[ModelName, NOT_IN_FINGERPRINT] = Field(
            "microsoft/llmlingua-2-xlm-roberta-large-meetingbank",
            description="Token classifier with two labels: a Hugging Face name or a directory.",
        )
        rate: float | None = Field(
            None,
            gt=0,
            le=1,
            description="Share of the hits' tokens to keep. Default: 0.33. If max_words or max_tokens is set: none, "
            "and the most important words fill that limit.",
        )

    version: ClassVar[str] = "2"

    def __init__(self, options: Options) -> None:
        """Raises FileNotFoundError, UnsupportedModel."""
        super().__init__(options, TokenClassifier(options.model, options, "refine"))

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        read = [own[: self.options.top_k] for own in hits]
        known, tokens = answered([[("", hit.text) for hit in own] for own in read], self.model.read, tick)
        texts = [text for _, text in known]
        words = dict(zip(texts, map(_words, self.model.words(texts), known.values()), strict=True))
        made = []
        notes = {"words": 0, "left": 0}
        for own in read:
            all_words = [ScoredWord(number, *word) for number, hit in enumerate(own) for word in words[hit.text]]
            kept = self._within_budget(own, self._share(sorted(all_words, key=attrgetter("keep"), reverse=True)))
            made.append(self._contexts(own, kept))
            notes["words"] += len(all_words)
            notes["left"] += len(kept)
        return Refined(made, tokens, notes)

    def _share(self, words: Sequence[ScoredWord]) -> Sequence[ScoredWord]:
        """The words that stay whatever the budget, of words in descending order."""
        rate = self.options.rate
        if rate is None:
            rate = 1.0 if self.options.has_budget else NATURAL
        tokens = np.cumsum([word.place.tokens for word in words])
        return words[: max(1, int((tokens <= round(rate * tokens[-1])).sum()))] if words else ()

    def _within_budget(self, hits: Sequence[Hit], words: Sequence[ScoredWord]) -> Sequence[ScoredWord]:
        """The first of the words, as many as the budgets take."""
        budget = Budget(self.options)

        def exceeds(last: int) -> bool:
            return not budget.holds([context.text for context in self._contexts(hits, words[: last + 1])])

        return words[: bisect_left(range(len(words)), True, key=exceeds)]

    def _contexts(self, hits: Sequence[Hit], words: Sequence[ScoredWord]) -> list[Context]:
        """The contexts of the words that are left, in the order of the hits."""
        left: dict[int, list[Word]] = {}
        for word in sorted(words):
            left.setdefault(word.hit, []).append(word.place)
        return [self._context(hits[number], places) for number, places in left.items()]

    def _context(self, hit: Hit, places: Sequence[Word]) -> Context:
        """One hit's words in their order. Its origin: their places, those of neighbours as one."""
        text, spans = "", list[tuple[int, int]]()
        for start, end, _ in places:
            gap = hit.text[spans[-1][1] : start] if spans else ""
            if spans and not gap.strip():
                text += gap
                spans[-1] = spans[-1][0], end
            else:
                text += " " if text and (gap[-1].isspace() or hit.text[start].isalnum()) else ""
                spans.append((start, end))
            text += hit.text[start:end]
        shown = hit.label(self.options) + text
        origin = [(hit.passage_id, hit.start + start, hit.start + end) for start, end in spans]
        return Context(shown, count_tokens(shown), tuple(origin) if hit.start < hit.end else (), hit.score)


def _words(places: Sequence[Word], reading: PairReading) -> list[tuple[Word, float]]:
    """The words of a text with their probabilities. One of which the model knows nothing is dropped first."""
    starts, ends, keep = np.reshape(reading.tokens, (-1, 3)).T
    keep = settled(keep.astype(np.float32))
    found = []
    for place in places:
        first, last = np.searchsorted(ends, place.start, side="right"), np.searchsorted(starts, place.end)
        found.append((place, float(keep[first:last].mean(dtype=np.float64)) if first < last else 0.0))
    return found
