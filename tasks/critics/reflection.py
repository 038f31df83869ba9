"""`reflection`: Self-RAG's critique of itself (Asai et al., 2023, arXiv 2310.11511, section 3.3), from one generation.

No model runs here: the generator `self_rag` keeps the probabilities of each group of reflection tokens at
the place where one of the group was written. ISREL = p(Relevant) of both, ISSUP = p(Fully) + ½ p(Partially) of the
three, ISUSE = the expected grade from 0 to 1, (grade − 1) / 4; Self-RAG's own scale from −1 to 1 is twice that less 1
(`select.utility` says which is weighed).

A group that was never written, because the answer was cut or the model forgot, gets what Self-RAG's program gives it,
which is 0: no relevance, no support, and for utility the middle of its scale, here 0.5.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from vitalfew.configs.evaluation import CritiqueConfig
from vitalfew.tasks.critics.base import Candidate, Judgement, uncritical
from vitalfew.tasks.generators.self_rag import RELEVANCE, SUPPORT, UTILITY
from vitalfew.tasks.models.ticks import Tick, no_tick

NO_TOKENS = (
    "the answer has no probabilities of reflection tokens; use generator self_rag with a model "
    "that writes them, or use another critic"
)


class Reflection:
    """Self-RAG: the probabilities of the model's reflection tokens, as the generator `self_rag` stored them."""

    example: ClassVar[tuple[str, ...]] = ("generate.generator=self_rag", "generate.model=selfrag/selfrag_llama2_7b")

    version: ClassVar[str] = "1"
    uses_gpu = False
    workers: int | None = None

    def __init__(self, options: CritiqueConfig) -> None:
        self.options = options

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version}

    def critique(self, batch: Sequence[Candidate], tick: Tick = no_tick) -> list[Judgement]:
        tick(len(batch), 0)
        return [_judgement(candidate.probabilities) for candidate in batch]


def _judgement(probabilities: Mapping[str, float]) -> Judgement:
    if not probabilities:
        return uncritical(NO_TOKENS)
    isrel = expected(probabilities, dict(zip(RELEVANCE, (1.0, 0.0), strict=True)))
    issup = expected(probabilities, dict(zip(SUPPORT, (1.0, 0.5, 0.0), strict=True)))
    grades = {token: place / (len(UTILITY) - 1) for place, token in enumerate(UTILITY)}
    isuse = expected(probabilities, grades)
    return Judgement(isrel or 0.0, issup or 0.0, 0.5 if isuse is None else isuse)


def expected(probabilities: Mapping[str, float], values: Mapping[str, float]) -> float | None:
    """The mean of the tokens' values, weighed by their probabilities among one another; None without any."""
    total = sum(probabilities.get(token, 0.0) for token in values)
    if not total > 0:
        return None
    return min(1.0, sum(value * probabilities.get(token, 0.0) for token, value in values.items()) / total)
