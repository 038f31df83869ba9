"""`gold`: what the data set says itself. A passage is relevant that is one of the question's gold passages.

Sparse RAG's gold labels (arXiv 2405.16178, table 10). With `answer`, one of the gold answers has to stand within its
supporting facts, or anywhere in it where there are none.
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from vitalfew.tasks.labellers.base import Label, Labelled, ModelFree
from vitalfew.tasks.models.ticks import Tick


class Gold(ModelFree):
    """Marks the question's gold passages, as the data set has them, as relevant; needs no model."""

    class Options(ModelFree.Options):
        answer: bool = Field(False, description="Require that the passage's supporting facts also hold a gold answer.")

    version: ClassVar[str] = "1"

    def label(self, batch: Sequence[Labelled], tick: Tick) -> list[Label]:
        tick(len(batch), 0)
        return [Label(float(self._is_relevant(passage))) for passage in batch]

    def _is_relevant(self, passage: Labelled) -> bool:
        if passage.passage_id not in passage.gold_passages:
            return False
        texts = [passage.text[start:end] for start, end in passage.facts] or [passage.text]
        found = any(answer.lower() in text.lower() for answer in passage.answers for text in texts)
        return found or not self.options.answer
