"""Raters that run no model: they read what the data set says, or what the generator recorded.

`gold`: a passage is relevant if it is one of the question's gold passages. These are Sparse RAG's gold labels (arXiv
2405.16178, table 10). With `answer`, one of the gold answers has to be in its supporting facts, or anywhere in a
passage without supporting facts.

`answer_text`: a passage is relevant if it has the text of a gold answer, whatever else it says. This is distant
supervision as in DPR (Karpukhin et al. 2020, arXiv 2004.04906, section 4.1): normalised as SQuAD does, as a run of
whole words.

`title`: a passage is relevant if it is from the article that the question is about. CRAG's evaluator was trained with
these silver labels (arXiv 2401.15884), and Sparse RAG compares its labels with them (arXiv 2405.16178, table 9): titles
are compared. The gold passages say which article a question is about; if none is in the corpus (PopQA), it is an
article whose title is in the question.

`reflection`: Self-RAG's critique of itself (Asai et al., 2023, arXiv 2310.11511, section 3.3), from one generation. The
generator `self_rag` keeps the probabilities of every group of reflection tokens at the place where one of the group was
written. ISREL = p(Relevant) of both, ISSUP = p(Fully) + ½ p(Partially) of the three, ISUSE = the expected grade from 0
to 1, (grade − 1) / 4; the scale of Self-RAG, from −1 to 1, is twice that less 1 (`select.utility` chooses the scale). A
group that was never written, because the answer was cut or the model forgot, gets the values of Self-RAG's program: 0
for relevance and support, and for utility the middle of its scale, here 0.5.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from vitalfew.configs.evaluation import LabelConfig
from vitalfew.tasks.comparable import find
from vitalfew.tasks.generators.self_rag import RELEVANCE, SUPPORT, UTILITY
from vitalfew.tasks.metrics.answers import has_answer, normalise
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.raters.base import Judgement, RatedContext, Rater, expected


class ModelFree(Rater):
    """A rater that judges case by case, and at once."""

    version: ClassVar[str] = "2"  # since 2, of the comparable form

    def rate(self, batch: Sequence[RatedContext], tick: Tick = no_tick) -> list[Judgement]:
        tick(len(batch), 0)
        return [self.judgement(case) for case in batch]

    @abstractmethod
    def judgement(self, case: RatedContext) -> Judgement: ...


class GoldPassage(ModelFree):
    """Marks the question's gold passages, as the data set has them, as relevant; needs no model."""

    class Options(LabelConfig, extra="forbid"):
        answer: bool = Field(False, description="Require that the passage's supporting facts also hold a gold answer.")

    def judgement(self, case: RatedContext) -> Judgement:
        relevant = case.passage_id in case.gold_passages
        if relevant and self.options.answer:
            texts = [case.context[start:end] for start, end in case.facts] or [case.context]
            relevant = any(find(text, answer) for answer in case.answers for text in texts)
        return Judgement({"rater": float(relevant)})


class AnswerText(ModelFree):
    """Marks passages that hold the text of a gold answer as relevant; needs no model."""

    def judgement(self, case: RatedContext) -> Judgement:
        return Judgement({"rater": float(has_answer(case.context, case.answers))})


class Title(ModelFree):
    """Marks passages from the article of a gold passage, or from one that the question names; needs no model."""

    def judgement(self, case: RatedContext) -> Judgement:
        title, golds = normalise(case.title), [normalise(gold) for gold in case.gold_titles]
        relevant = title in golds if golds else f" {title} " in f" {normalise(case.question)} "
        return Judgement({"rater": float(bool(title) and relevant)})


class Reflection(ModelFree):
    """Self-RAG: the probabilities of the model's reflection tokens, as the generator `self_rag` stored them."""

    example: ClassVar[tuple[str, ...]] = ("generate.generator=self_rag", "generate.model=selfrag/selfrag_llama2_7b")

    def judgement(self, case: RatedContext) -> Judgement:
        if not case.probabilities:
            return Judgement(
                error="the answer has no probabilities of reflection tokens; use generator self_rag with a model "
                "that writes them, or use another critic"
            )
        isrel = expected(case.probabilities, dict(zip(RELEVANCE, (1.0, 0.0), strict=True)))
        issup = expected(case.probabilities, dict(zip(SUPPORT, (1.0, 0.5, 0.0), strict=True)))
        grades = {token: place / (len(UTILITY) - 1) for place, token in enumerate(UTILITY)}
        isuse = expected(case.probabilities, grades)
        return Judgement({"isrel": isrel or 0.0, "issup": issup or 0.0, "isuse": 0.5 if isuse is None else isuse})
