"""Costs of an answer: tokens, contexts, seconds, price, speed, and the share of the hits that a refiner leaves.

What an answer took: tokens, contexts, seconds, and the price of the tokens. What computing cost is in the ledger of
the stages, and shown as theirs.

A failed request counts with what it took, too. Contexts are left out where that stage was not run, the others where no
answer was asked for.

How fast an answer was read and written, and from how much (Sparse RAG, arXiv 2405.16178, section 5.4, table 3).

Encoding speed (ES): tokens of the prompt by the seconds until the first token was written. Decoding speed (DS): all
tokens after the first by their seconds. K: contexts that the answer was written from. A prompt of which a part was not
read again, because ratings were remembered, has no encoding speed, and an answer of one token no decoding speed. The
seconds of each step are those of table 6: until the model begins (init), until its first token (prefill), for putting
caches together (copy), and for all further tokens (decode).

How much a refiner leaves of what was retrieved, and how long a question takes with it (Oreo, arXiv 2502.13019, 4.2).

The context share is the length of the contexts by that of all hits as a prompt would show them, in words and
punctuation marks, whatever the model: 1 where all are passed on. The paper compares whole prompts, in the tokens of the
generator: that is the metric `tokens`. The seconds of a question are those of its refiner and its generator, models
loaded; in a batch a question has its share of the time, and what was read for another ratio counts with what it took
then. Retrieval is the same for every refiner and is left out.
"""

from collections.abc import Sequence
from typing import ClassVar

from vitalfew.tasks.metrics.base import ANSWER, CONTEXTS, REFINEMENTS, STEPS, Answer, Case, Column, PerQuestion, Values

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


_COLUMNS = (
    Column("encoding_speed", "ES", "tokens/s", "higher", (ANSWER, STEPS)),
    Column("decoding_speed", "DS", "tokens/s", "higher", (ANSWER, STEPS)),
    Column("kept", "K", "contexts", "lower", (ANSWER,)),
    Column("kv_tokens", "cache tokens", "tokens", "lower", (ANSWER, STEPS)),
)
_STEPS = tuple(
    Column(f"{step}_seconds", f"{step} seconds", "s", "lower", (ANSWER, STEPS), detail=True)
    for step in ("init", "prefill", "copy", "decode")
)


class Latency(PerQuestion):
    """Encoding and decoding speed (ES, DS: tokens per second), contexts kept (K), cache tokens, and seconds by step."""

    version: ClassVar[str] = "2"  # since 2, seconds by step

    def columns(self) -> tuple[Column, ...]:
        return (*_COLUMNS, *_STEPS)

    def score(self, cases: Sequence[Case]) -> Values:
        answers = [None if case.answer is None or case.answer.error else case.answer for case in cases]
        known = [answer or _NONE for answer in answers]
        seconds = {step.name: [getattr(answer, step.name) for answer in known] for step in _STEPS}
        return {
            **seconds,
            "encoding_speed": [_speed(answer.prompt_tokens, answer.prefill_seconds) for answer in known],
            "decoding_speed": [_speed(answer.completion_tokens - 1, answer.decode_seconds) for answer in known],
            "kept": [answer.kept for answer in known],
            "kv_tokens": [answer.kv_tokens for answer in known],
        }


_NONE = Answer("", 0, 0, 0.0)


def _speed(tokens: int, seconds: float | None) -> float | None:
    return tokens / seconds if tokens > 0 and seconds else None


class Compression(PerQuestion):
    """Context tokens as a share of the retrieved tokens, seconds of the refiner, and of refiner and generator."""

    version: ClassVar[str] = "2"  # since 2, the processors' seconds

    def columns(self) -> tuple[Column, ...]:
        return (
            Column("context_share", "context share", direction="lower", needs=(REFINEMENTS,)),
            Column("refine_seconds", "refine seconds", "s", "lower", (REFINEMENTS,)),
            Column("refine_cpu_seconds", "refine processor seconds", "s", "lower", (REFINEMENTS,), detail=True),
            Column("total_seconds", "refine and answer seconds", "s", "lower", (REFINEMENTS, ANSWER)),
        )

    def score(self, cases: Sequence[Case]) -> Values:
        return {
            "context_share": [_share(case) for case in cases],
            "refine_seconds": [case.refinement.seconds if case.refinement else None for case in cases],
            "refine_cpu_seconds": [case.refinement.cpu_seconds if case.refinement else None for case in cases],
            "total_seconds": [_seconds(case) for case in cases],
        }


def _share(case: Case) -> float | None:
    """None where nothing was retrieved."""
    done = case.refinement
    return done.output_tokens / done.input_tokens if done and done.input_tokens else None


def _seconds(case: Case) -> float | None:
    return case.refinement.seconds + case.answer.seconds if case.refinement and case.answer else None
