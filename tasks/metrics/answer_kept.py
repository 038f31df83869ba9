"""Whether a refiner keeps the answer: of the questions whose hits hold an accepted answer, those whose contexts do.

A hit holds it in its text or its title, as a prompt shows them; in a row of tokens, as `answer_recall` looks for it. A
text that was put together of parts holds it only where the parts have it whole. What a refiner was given counts where
that is not what was retrieved (perturb).
"""

from collections.abc import Sequence

from vitalfew.tasks.metrics.base import CONTEXTS, GOLD_ANSWERS, HITS, Case, Column, PerQuestion, Values
from vitalfew.tasks.metrics.correct_units import first_correct


class AnswerKept(PerQuestion):
    """1 if the contexts still hold an accepted answer that the hits hold, else 0."""

    def columns(self) -> tuple[Column]:
        return (Column("answer_kept", "answer kept", needs=(CONTEXTS, HITS, GOLD_ANSWERS)),)

    def score(self, cases: Sequence[Case]) -> Values:
        return {"answer_kept": [_kept(case) for case in cases]}


def _kept(case: Case) -> float | None:
    """None where no hit holds an answer."""
    given = case.hits if case.given is None else case.given
    if case.contexts is None or given is None:
        return None
    if not first_correct(case.answers, (text for hit in given for text in (hit.title, hit.text))):
        return None
    return float(first_correct(case.answers, (context.text for context in case.contexts)) > 0)
