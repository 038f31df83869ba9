"""What an answer took: tokens, contexts, seconds, and the price of the tokens. What computing cost is in the ledger of
the stages, and shown as theirs.

A failed request counts with what it took, too. Contexts are left out where that stage was not run, the others where no
answer was asked for.
"""

from collections.abc import Sequence
from typing import ClassVar

from vitalfew.tasks.metrics.base import ANSWER, CONTEXTS, Case, Column, PerQuestion, Values

_TOKENS = (
    Column("prompt_tokens", "prompt tokens", "tokens", "lower", (ANSWER,)),
    Column("completion_tokens", "completion tokens", "tokens", "lower", (ANSWER,)),
)
_CONTEXTS = (
    Column("context_tokens", "context tokens", "tokens", "lower", (CONTEXTS,)),
    Column("contexts", "contexts", "contexts", "lower", (CONTEXTS,)),
)
_PRICE = (
    Column("seconds", "seconds", "s", "lower", (ANSWER,)),
    Column("usd", "USD for tokens", "USD", "lower", (ANSWER,), detail=True),
)


class Tokens(PerQuestion):
    """Prompt and completion tokens, contexts, their words and punctuation marks, seconds, and the tokens' price (USD).

    The model counts the tokens."""

    version: ClassVar[str] = "2"  # since 2, the price is without computing time

    def columns(self) -> tuple[Column, ...]:
        return (*_TOKENS, *_CONTEXTS, *_PRICE)

    def score(self, cases: Sequence[Case]) -> Values:
        of_answer: dict[str, list[float | None]] = {
            column.name: [None if case.answer is None else float(getattr(case.answer, column.name)) for case in cases]
            for column in (*_TOKENS, *_PRICE)
        }
        contexts = [None if case.contexts is None else float(len(case.contexts)) for case in cases]
        return {**of_answer, "contexts": contexts, "context_tokens": [_tokens(case) for case in cases]}


def _tokens(case: Case) -> float | None:
    return None if case.contexts is None else float(sum(context.tokens for context in case.contexts))
