"""`answer_text`: a passage is relevant in which a gold answer's text stands, whatever it says with it.

Distant supervision, as DPR has it (Karpukhin et al. 2020, arXiv 2004.04906, section 4.1): normalised as SQuAD does, as
a run of whole words.
"""

from collections.abc import Sequence
from typing import ClassVar

from vitalfew.tasks.labellers.base import Label, Labelled, ModelFree
from vitalfew.tasks.metrics.answers import normalise
from vitalfew.tasks.models.ticks import Tick


class AnswerText(ModelFree):
    """Marks passages that hold the text of a gold answer as relevant; needs no model."""

    version: ClassVar[str] = "1"

    def label(self, batch: Sequence[Labelled], tick: Tick) -> list[Label]:
        tick(len(batch), 0)
        return [Label(float(_has_answer(passage))) for passage in batch]


def _has_answer(passage: Labelled) -> bool:
    text = f" {normalise(passage.text)} "
    answers = (normalise(answer) for answer in passage.answers)
    return any(f" {answer} " in text for answer in answers if answer)
