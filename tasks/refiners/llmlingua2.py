"""`llmlingua2`: a token classifier says which words of the hits to keep, whatever the question (LLMLingua-2).

Pan et al., 2024 (arXiv 2403.12968, section 4): an encoder gives every token a probability of being kept, a word has the
mean of its tokens', and of all words of a question's hits the share refine.rate with the highest stays, in its order.

Deviations: of equal words the first stays; no marks or numbers are kept by force, as the authors' package can; words
are runs between blanks, and a title that is shown stays whole. Where a budget does not take all, the best words are
taken.

The published checkpoint, microsoft/llmlingua-2-xlm-roberta-large-meetingbank, was not at hand: what is here was run
with tiny models of its architecture and of BERT's, and never with it.
"""

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from configs.evaluation import RefineConfig
from configs.options import Batching
from configs.section import NOT_IN_FINGERPRINT, ModelName
from tasks.models.token_classifier import TokenClassifier
from tasks.refiners.base import Hit, Refined, Tick, Vectors, no_tick
from tasks.refiners.model import ModelRefiner
from tasks.refiners.progress import Watched
from tasks.refiners.sentences import Sentence, contexts

_WORD = re.compile(r"\S+\s*")


class LLMLingua2(ModelRefiner[TokenClassifier]):
    """A token classifier keeps the share of the hits' words that it finds most worth keeping (LLMLingua-2)."""

    class Options(Batching, RefineConfig):
        model_config = ConfigDict(extra="forbid")

        model: Annotated[ModelName, NOT_IN_FINGERPRINT] = Field(
            "microsoft/llmlingua-2-xlm-roberta-large-meetingbank",
            description="A token classifier with two labels: a Hugging Face name or a directory.",
        )
        rate: float = Field(0.33, gt=0, le=1, description="Share of the hits' words that is left.")

    version: ClassVar[str] = "1"
    options: Options

    def __init__(self, options: Options) -> None:
        """Raises FileNotFoundError, UnsupportedModel."""
        super().__init__(options, TokenClassifier(options.model, options, "refine"))

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        read = [own[: self.options.top_k] for own in hits]
        distinct = [*dict.fromkeys(hit.text for own in read for hit in own)]
        watched = Watched(tick, len(questions), len(distinct))
        readings = self.model.read([("", text) for text in distinct], watched) if distinct else []
        watched.finish()
        tokens = {text: reading.tokens for text, reading in zip(distinct, readings, strict=True)}
        made = []
        notes = {"words": 0, "left": 0}
        for own in read:
            words = [word for number, hit in enumerate(own) for word in _words(hit, number, tokens[hit.text])]
            kept = sorted(words, key=itemgetter(0), reverse=True)[: round(self.options.rate * len(words))]
            made.append(contexts(own, [word for _, word in kept], self.options))
            notes["words"] += len(words)
            notes["left"] += len(kept)
        return Refined(made, watched.tokens, notes)


def _words(hit: Hit, number: int, tokens: Sequence[tuple[int, int, float]]) -> list[tuple[float, Sentence]]:
    """A hit's words with their probabilities. One that has no place in its passage is a word as a whole."""
    if hit.start == hit.end:
        return [(_mean(tokens, 0, len(hit.text)), Sentence(number, (hit.start, hit.end), hit.text))]
    return [
        (
            _mean(tokens, match.start(), match.end()),
            Sentence(number, (hit.start + match.start(), hit.start + match.end()), match[0]),
        )
        for match in _WORD.finditer(hit.text)
    ]


def _mean(tokens: Sequence[tuple[int, int, float]], start: int, end: int) -> float:
    """Of the tokens of a word; a word of which the model knows nothing is dropped first."""
    own = [keep for first, last, keep in tokens if first < end and last > start]
    return sum(own) / len(own) if own else 0.0
