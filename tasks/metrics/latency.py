"""How fast an answer was read and written, and from how much (Sparse RAG, arXiv 2405.16178, section 5.4, table 3).

Encoding speed (ES): tokens of the prompt by the seconds until the first token was written. Decoding speed (DS): all
tokens after the first by their seconds. K: contexts that the answer was written from. A prompt of which a part was not
read again, because ratings were remembered, has no encoding speed, and an answer of one token no decoding speed. The
seconds of each step are those of table 6: until the model begins (init), until its first token (prefill), for putting
caches together (copy), and for all further tokens (decode).
"""

from collections.abc import Sequence
from typing import ClassVar

from vitalfew.tasks.metrics.base import ANSWER, STEPS, Answer, Case, Column, PerQuestion, Values

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
