"""Costs of an answer: tokens, contexts, seconds, price, speed, and the share of the hits that a refiner leaves.

**Tokens.** The price is that of the tokens; computing time is in the ledger of the stages. A failed request counts with
what it took, too. Contexts are left out where that stage was not run, the others where no answer was asked for.

**Latency** (Sparse RAG, arXiv 2405.16178, section 5.4, table 3). Encoding speed (ES): tokens of the prompt by the
seconds until the first token was written. Decoding speed (DS): all tokens after the first by their seconds. K: contexts
that the answer was written from. A prompt of which a part was not read again, because ratings were remembered, has no
encoding speed. The steps are those of table 6: until the model begins (init), until its first token (prefill), for
putting caches together (copy), and for all further tokens (decode).

**Compression** (Oreo, arXiv 2502.13019, section 4.2). The context share is the length of the contexts by that of all
hits as a prompt would show them, in words and punctuation marks; the paper compares whole prompts, in the generator's
tokens, as the metric `tokens` does. The seconds of a question are its share of its batch's in refiner and generator,
models loaded; what was read for another ratio counts with what it took then. Retrieval is left out.
"""

from typing import ClassVar

from vitalfew.tasks.metrics.base import ANSWER, CONTEXTS, COUNTED, REFINEMENTS, STEPS, Case, Column, PerQuestion

CACHED = "cached_tokens"
"""The tokens of prompts that a server had read before, for another prompt with the same beginning."""


class Tokens(PerQuestion):
    """Prompt, cached and completion tokens, contexts, their words and punctuation marks, seconds, the tokens' price.

    The model counts the tokens."""

    version: ClassVar[str] = "3"  # since 3, with cached tokens; 2, the price is without computing time

    shown = (
        Column("prompt_tokens", "prompt tokens", "tokens", "lower", (ANSWER, COUNTED)),
        Column("completion_tokens", "completion tokens", "tokens", "lower", (ANSWER, COUNTED)),
        Column("context_tokens", "context tokens", "tokens", "lower", (CONTEXTS,)),
        Column("contexts", "contexts", "contexts", "lower", (CONTEXTS,)),
        Column("seconds", "generator seconds", "s", "lower", (ANSWER, COUNTED)),
        Column("usd", "USD for tokens", "USD", "lower", (ANSWER, COUNTED), detail=True),
        Column(CACHED, "cached prompt tokens", "tokens", "neither", (ANSWER,), detail=True),
    )

    def row(self, case: Case) -> tuple[float | None, ...]:
        answer, contexts = case.answer, case.contexts
        tokens = (answer.told("prompt_tokens"), answer.told("completion_tokens")) if answer else (None, None)
        price = (answer.told("seconds"), answer.usd, answer.told(CACHED)) if answer else (None, None, None)
        shown = (None, None) if contexts is None else (sum(context.tokens for context in contexts), len(contexts))
        return (*tokens, *shown, *price)


class Latency(PerQuestion):
    """Encoding and decoding speed (ES, DS: tokens per second), contexts kept (K), cache tokens, and seconds by step."""

    version: ClassVar[str] = "2"  # since 2, seconds by step

    shown = (
        Column("encoding_speed", "ES", "tokens/s", "higher", (ANSWER, STEPS)),
        Column("decoding_speed", "DS", "tokens/s", "higher", (ANSWER, STEPS)),
        Column("kept", "K", "contexts", "lower", (ANSWER,)),
        Column("kv_tokens", "cache tokens", "tokens", "lower", (ANSWER, STEPS)),
        Column("init_seconds", "init seconds", "s", "lower", (ANSWER, STEPS), detail=True),
        Column("prefill_seconds", "prefill seconds", "s", "lower", (ANSWER, STEPS), detail=True),
        Column("copy_seconds", "copy seconds", "s", "lower", (ANSWER, STEPS), detail=True),
        Column("decode_seconds", "decode seconds", "s", "lower", (ANSWER, STEPS), detail=True),
    )

    def row(self, case: Case) -> tuple[float | None, ...] | None:
        answer = case.answer
        if answer is None or answer.error:
            return None
        encoding = _speed(answer.prompt_tokens, answer.prefill_seconds)
        decoding = _speed(answer.completion_tokens - 1, answer.decode_seconds)
        return encoding, decoding, *(getattr(answer, column.name) for column in self.shown[2:])


def _speed(tokens: int, seconds: float | None) -> float | None:
    return tokens / seconds if tokens > 0 and seconds else None


class Compression(PerQuestion):
    """Context tokens as a share of the retrieved tokens, seconds of the refiner, and of refiner and generator."""

    version: ClassVar[str] = "2"  # since 2, the processors' seconds

    shown = (
        Column("context_share", "context share", direction="lower", needs=(REFINEMENTS,)),
        Column("refine_seconds", "refine seconds", "s", "lower", (REFINEMENTS,)),
        Column("refine_cpu_seconds", "refine processor seconds", "s", "lower", (REFINEMENTS,), detail=True),
        Column("total_seconds", "refine and answer seconds", "s", "lower", (REFINEMENTS, ANSWER)),
    )

    def row(self, case: Case) -> tuple[float | None, ...] | None:
        done = case.refinement
        if done is None:
            return None
        share = done.output_tokens / done.input_tokens if done.input_tokens else None  # None: nothing was retrieved
        total = done.seconds + case.answer.seconds if case.answer else None
        return share, done.seconds, done.cpu_seconds, total
