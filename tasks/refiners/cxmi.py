"""`cxmi`: a trained filter passes on the sentences of the hits that make the gold answer likeliest (FilCo).

FilCo (Wang et al., 2023, arXiv 2311.08377, section 2): the gold context of a question is the sentence of the largest
conditional cross-mutual information, log p(answer | question, sentence) - log p(answer | question), and a model learns
to find it from question and hits alone, without the answer. Labels and training: tasks/trainers/cxmi.py.

Deviations. FilCo tunes Flan-T5-XL, which reads all hits at once and writes the filtered context; none of its weights
are published. Here a classifier over all-MiniLM-L6-v2 (models/small/sentence_filter.py) reads one hit at a time and
gives every sentence of it a probability; what is passed on stands in the hits, in their order. FilCo passes on one
sentence; here all that reach a threshold, and the best in any case, so that one is passed on wherever there is one.
The threshold's default was chosen in training, by F1 of the sentences that are passed on. FilCo has no budget: where
one is set all sentences are candidates, and the most probable fill it. Titles are not read; they are shown as the
settings say.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.models.files import directory_of
from vitalfew.tasks.models.presets import source_of
from vitalfew.tasks.models.small.sentence_filter import Request, SentenceFilter
from vitalfew.tasks.models.ticks import Tick, Watched, no_tick
from vitalfew.tasks.refiners.base import Hit, Refined, Vectors
from vitalfew.tasks.refiners.model import ModelRefiner
from vitalfew.tasks.refiners.sentences import Sentence, contexts, sentences


class Cxmi(ModelRefiner[SentenceFilter]):
    """A small classifier keeps the sentences of the hits that make an answer likelier (FilCo)."""

    class Options(Batching, RefineConfig):
        model_config = ConfigDict(extra="forbid")

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
            "threshold chosen in training, or none if a budget is set; the best sentences then fill it.",
        )

    example: ClassVar[tuple[str, ...]] = ("refine.max_words=100",)
    version: ClassVar[str] = "1"
    needs_sentences = True
    options: Options

    def __init__(self, options: Options) -> None:
        """Raises FileNotFoundError, UnsupportedModel."""
        super().__init__(options, SentenceFilter(directory_of(source_of("pruner", options.model)), options, "refine"))

    @property
    def threshold(self) -> float:
        """Of this refiner, by its settings and its weights."""
        if self.options.threshold is not None:
            return self.options.threshold
        return 0.0 if self.options.has_budget else self.model.threshold

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        read = [own[: self.options.top_k] for own in hits]
        cut = [[sentences(hit, number) for number, hit in enumerate(own)] for own in read]
        requests: list[list[Request]] = [
            [(question, *(each.text for each in of_hit)) for of_hit in of_own]
            for question, of_own in zip(questions, cut, strict=True)
        ]
        distinct = [*dict.fromkeys(request for own in requests for request in own)]
        watched = Watched(tick, len(questions), len(distinct))
        known = dict(zip(distinct, self.model.read(distinct, watched), strict=True))
        watched.finish()
        made, passed = [], 0
        for own, of_own, asked in zip(read, cut, requests, strict=True):
            scored = [
                (float(value), each)
                for of_hit, request in zip(of_own, asked, strict=True)
                for each, value in zip(of_hit, known[request], strict=True)
                if each.text.strip()
            ]
            kept = self._kept(scored)
            passed += len(kept)
            made.append(contexts(own, kept, self.options))
        notes = {"sentences": sum(len(of_hit) for own in cut for of_hit in own), "passed": passed}
        return Refined(made, watched.tokens, notes)

    def _kept(self, scored: Sequence[tuple[float, Sentence]]) -> list[Sentence]:
        """The sentences that pass, the most probable first; of equals the first."""
        order = sorted(scored, key=lambda each: -each[0])
        passing = [each for value, each in order if value >= self.threshold]
        return passing or [each for _, each in order[:1]]
