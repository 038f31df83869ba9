"""`title`: a passage is relevant whose article is the one that the question is about.

The silver labels that CRAG's evaluator was trained with (arXiv 2401.15884), which Sparse RAG compares with its own
(arXiv 2405.16178, table 9): titles are compared. Which article a question is about is what its gold passages say; where
it has none in the corpus (PopQA), it is an article whose title stands in the question.
"""

from collections.abc import Sequence
from typing import ClassVar

from vitalfew.tasks.labellers.base import Label, Labelled, ModelFree
from vitalfew.tasks.metrics.answers import normalise
from vitalfew.tasks.models.ticks import Tick


class Title(ModelFree):
    """Marks passages from the article of a gold passage, or from one that the question names; needs no model."""

    version: ClassVar[str] = "1"

    def label(self, batch: Sequence[Labelled], tick: Tick) -> list[Label]:
        tick(len(batch), 0)
        return [Label(float(_is_of_the_article(passage))) for passage in batch]


def _is_of_the_article(passage: Labelled) -> bool:
    title = normalise(passage.title)
    if not title:
        return False
    if passage.gold_titles:
        return title in map(normalise, passage.gold_titles)
    return f" {title} " in f" {normalise(passage.question)} "
