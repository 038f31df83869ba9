"""`provence`: a DeBERTa reads a whole passage with the question and says which of its sentences to keep.

Provence (Chirkova et al., 2025, arXiv 2501.16214, section 3): every token gets a probability of being kept, which the
threshold T turns into yes or no; a sentence is kept if more than half of its tokens are (sentence rounding;
refine.share). The same pass gives the passage a score, by which passages are put in order (refine.reorder), as where it
takes the place of a reranker. Sentences are the index's. The title is read before the passage and never pruned; it is
shown as refine.text and refine.titles say. A passage that is too long for the model is read in parts, the best of which
gives its score. A passage of which no sentence is kept is dropped.

top_k counts passages after they were put in order. A budget takes sentences passage by passage.

The published checkpoint, naver/provence-reranker-debertav3-v1 (CC BY-NC-ND 4.0), was not at hand: what is here was run
with a tiny model of its architecture, and never with it (tasks/models/small/provence.py).
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.encoders import titles
from vitalfew.tasks.models.small import provence
from vitalfew.tasks.models.small.pairs import PairReading
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Context, Hit, ModelRefiner, Refined, Refiner, Retrieved, Vectors, answered
from vitalfew.tasks.refiners.sentences import Sentence, contexts, sentences


class Provence(ModelRefiner):
    """A DeBERTa with a pruning head says which sentences of a passage to keep, and ranks the passages (Provence)."""

    class Options(Batching, Refiner.Options):
        model: Annotated[ModelName, NOT_IN_FINGERPRINT] = Field(
            provence.PUBLISHED, description="Checkpoint of Provence: a Hugging Face name or a directory."
        )
        threshold: float = Field(
            0.1, ge=0, lt=1, description="Probability above which a token counts as kept; the authors use 0.1 or 0.5."
        )
        share: float = Field(0.5, ge=0, lt=1, description="Share of kept tokens above which a sentence is kept.")
        reorder: bool = Field(True, description="Sort the passages by the model's scores.")

    needs_sentences = True

    def __init__(self, options: Options) -> None:
        """Raises FileNotFoundError, UnsupportedModel."""
        super().__init__(options, provence.ProvenceModel(options.model, options, "refine"))

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        pairs = [[(question, hit.titled) for hit in own] for question, own in zip(questions, hits, strict=True)]
        readings, tokens = answered(pairs, self.model.read, tick)
        made = [
            self._pruned([(hit, readings[pair]) for hit, pair in zip(own, of_own, strict=True)])
            for own, of_own in zip(hits, pairs, strict=True)
        ]
        return Refined(made, tokens, {"empty": sum(not each for each in made)})

    def _pruned(self, read: list[tuple[Hit, PairReading]]) -> list[Context]:
        if self.options.reorder:
            read.sort(key=lambda each: -each[1].score)
        read = read[: self.options.top_k]
        kept = [
            sentence
            for place, (hit, reading) in enumerate(read)
            for sentence in sentences(hit, place)
            if self._keeps(sentence, hit, reading)
        ]
        return contexts([hit for hit, _ in read], kept, self.options)

    def _keeps(self, sentence: Sentence, hit: Hit, reading: PairReading) -> bool:
        """Whether more than a share of the sentence's tokens are kept."""
        start = len(titles.lead(hit.title)) + sentence.span[0] - hit.start
        end = start + len(sentence.text.rstrip())  # a token may begin with the blank before its word
        own = [keep for first, last, keep in reading.tokens if first < end and last > start]
        return bool(own) and sum(keep > self.options.threshold for keep in own) > self.options.share * len(own)
