"""What an answer took: tokens, contexts, seconds, USD.

A failed request counts with what it took, too. Contexts are left out where that stage was not run, the others where no
answer was asked for.
"""

from collections.abc import Sequence
from typing import ClassVar

from tasks.metrics.base import Case, PerQuestion, Values

_OF_ANSWER = ("prompt_tokens", "completion_tokens", "seconds", "usd")


class Tokens(PerQuestion):
    """Prompt and completion tokens as the model counts them, contexts and their words and punctuation marks, seconds,
    USD."""

    higher_is_better: ClassVar[bool | None] = False

    def score(self, cases: Sequence[Case]) -> Values:
        columns: dict[str, list[float | None]] = {
            name: [None if case.answer is None else float(getattr(case.answer, name)) for case in cases]
            for name in _OF_ANSWER
        }
        contexts = [None if case.contexts is None else float(len(case.contexts)) for case in cases]
        return {**columns, "contexts": contexts, "context_tokens": [_tokens(case) for case in cases]}


def _tokens(case: Case) -> float | None:
    return None if case.contexts is None else float(sum(context.tokens for context in case.contexts))
