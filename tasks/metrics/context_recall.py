"""The gold passages among those that the contexts come from: what is left of recall after refining.

`passage_recall` counts hits; a refiner that keeps some of them changes what the prompt has, and that is counted here.
A question without gold passages, without contexts to speak of, or with a context whose origin is not known (it was
rewritten, or the index holds no sentences) is left out. One whose contexts are none has 0.
"""

from collections.abc import Sequence

from vitalfew.tasks.metrics.base import CONTEXTS, GOLD_PASSAGES, Case, Column, PerQuestion, Values


class ContextRecall(PerQuestion):
    """Share of the gold passages that a context of the prompt comes from."""

    def columns(self) -> tuple[Column]:
        return (Column("context_recall", "context recall", needs=(CONTEXTS, GOLD_PASSAGES)),)

    def score(self, cases: Sequence[Case]) -> Values:
        return {"context_recall": [_recall(case) for case in cases]}


def _recall(case: Case) -> float | None:
    if not case.gold_passages or case.contexts is None or not all(context.spans for context in case.contexts):
        return None
    sources = {span.passage_id for context in case.contexts for span in context.spans}
    return sum(passage in sources for passage in case.gold_passages) / len(case.gold_passages)
