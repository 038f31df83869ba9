"""`cxmi`: a trained filter passes on the sentences of the hits that make the gold answer likeliest (FilCo).

FilCo (Wang et al., 2023, arXiv 2311.08377, section 2): the gold context of a question is the sentence of the largest
conditional cross-mutual information, log p(answer | question, sentence) - log p(answer | question), and a model learns
to find it from question and hits alone, without the answer. Labels and training: tasks/trainers/cxmi.py.

Deviations. FilCo tunes Flan-T5-XL, which reads all hits at once and writes the filtered context; none of its weights
are published. Here a classifier over all-MiniLM-L6-v2 (models/small/sentence_filter.py) reads one hit at a time and
gives every sentence of it a probability. FilCo passes on one sentence; here all that reach a threshold, whose default
was chosen in training, and the best in any case, in the order of the hits. Behind a retriever of sentences it keeps
fewer answers than naive RAG at equal tokens (`git show 23cb3959:tests/flows/pipelines/test_combinations.py`): use it
after passages. Where a budget is set, which FilCo lacks, the most probable sentences fill it. Titles are not read; they
are shown as the settings say.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Annotated, ClassVar

from pydantic import Field

from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.models.presets import source_of
from vitalfew.tasks.models.small.sentence_filter import Request, SentenceFilter
from vitalfew.tasks.refiners.base import Hit, Refiner
from vitalfew.tasks.refiners.sentences import Scored, Sentence, SentenceRefiner, ranked


class Cxmi(SentenceRefiner):
    """A small classifier keeps the sentences of the hits that make an answer likelier (FilCo)."""

    class Options(Batching, Refiner.Options):
        model: Annotated[ModelName, NOT_IN_FINGERPRINT] = Field(
            "cxmi",
            description="Sentence filter: cxmi for the bundled weights, or a directory that `vitalfew train cxmi "
            "--out` wrote.",
        )
        threshold: float | None = Field(
            None,
            ge=0,
            le=1,
            description="Lowest probability of a sentence to keep; the best sentence always stays. Default: the "
            "threshold chosen in training. If a budget is set: none, and the best sentences fill it.",
        )

    example: ClassVar[tuple[str, ...]] = ("refine.max_words=100",)
    counted: ClassVar[tuple[str, ...]] = ("sentences", "passed")
    reads_blanks = True

    def __init__(self, options: Options) -> None:
        """Raises FileNotFoundError, UnsupportedModel."""
        super().__init__(options, SentenceFilter(source_of("pruner", options.model), options, "refine"))
        self.natural = self.model.threshold

    def requests(self, question: str, hits: Sequence[Hit], units: Sequence[Sentence]) -> list[Request]:
        return [(question, *(each.text for each in of_hit)) for _, of_hit in groupby(units, attrgetter("hit"))]

    def kept(self, scored: Sequence[Scored]) -> list[Sentence]:
        """The sentences that pass, and the best in any case."""
        candidates = [(score, sentence) for score, sentence in scored if sentence.text.strip()]
        return super().kept(candidates) or [sentence for _, sentence in ranked(candidates)[:1]]
