"""Which contexts an answer is read from: those that the model itself rates high enough (Sparse RAG, section 3.2).

The score of a context is the probability of "yes" as the next token behind the control that asks whether the context is
of use. What scores below a threshold is dropped. The paper says nothing of a question for which nothing is left: by
default its best context stays (`at_least: 0` is the literal rule).
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from vitalfew.configs.evaluation import CHOOSES_PROMPTS
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import NOT_IN_FINGERPRINT
from vitalfew.tasks.generators.base import Prompt, Rating
from vitalfew.tasks.models.causal.controls import Controls


class RatingOptions(Controls):
    """How contexts are rated, and which are kept."""

    threshold: Annotated[float | None, CHOOSES_PROMPTS] = Field(
        0.15, ge=0, le=1, description="Lowest score of a context to keep; null: rate no context and keep all."
    )
    at_least: Annotated[int, CHOOSES_PROMPTS] = Field(
        1, ge=0, description="Minimum number of contexts to keep, the best ones; 0: perhaps none, as in the paper."
    )
    at_most: Annotated[int | None, CHOOSES_PROMPTS] = Field(
        None, ge=1, description="Maximum number of contexts to keep, the best ones; default: all above the threshold."
    )
    score: Literal["probability", "share"] = Field(
        "probability", description="Score of a context. probability: P(yes); share: P(yes) / (P(yes) + P(no))."
    )
    reuse_ratings: Annotated[bool, NOT_IN_FINGERPRINT] = Field(
        True, description="Reuse a rating if this model has already rated the context for this question."
    )

    def check(self, section: str) -> None:
        """Raises ConfigError."""
        if self.at_most is None:
            return
        if self.at_most < self.at_least:
            raise ConfigError(
                f"{section}.at_most must be at least {section}.at_least, got {self.at_most} and {self.at_least}"
            )
        if self.threshold is None:
            raise ConfigError(
                f"{section}.at_most needs ratings; --set {section}.threshold=0 rates all contexts and drops none"
            )

    def chosen(self, scores: Sequence[float], texts: Sequence[str]) -> list[int]:
        """The contexts that are kept, in their order. `texts`: theirs, which decide between equal scores, so that their
        order does not."""
        if self.threshold is None:
            return list(range(len(scores)))
        best = sorted(range(len(scores)), key=lambda place: (-scores[place], texts[place]))
        reaching = sum(score >= self.threshold for score in scores)
        return sorted(best[: min(max(reaching, self.at_least), self.at_most or len(best))])

    def scored(self, yes: float, no: float) -> float:
        """The score, of the probabilities of both words."""
        return yes / (yes + no) if self.score == "share" and yes + no > 0 else yes

    def ratings(self, prompt: Prompt, scores: Sequence[float], tokens: Sequence[int]) -> tuple[Rating, ...]:
        """Of a prompt's contexts, by their scores and lengths; none without a threshold."""
        if self.threshold is None:
            return ()
        kept = self.chosen(scores, prompt.contexts)
        return tuple(
            Rating(place + 1, score, place in kept, length)
            for place, (score, length) in enumerate(zip(scores, tokens, strict=True))
        )

    def rated(self, prompt: Prompt) -> tuple[Rating, ...]:
        """Of a prompt all of whose contexts are remembered; else none."""
        known = [rating for rating in prompt.remembered if rating]
        if len(known) < len(prompt.contexts):
            return ()
        return self.ratings(prompt, [rating.score for rating in known], [rating.tokens for rating in known])

    def kept(self, prompt: Prompt) -> tuple[str, ...] | None:
        """The contexts that the answer is read from, best first; None as long as that is not known."""
        if self.threshold is None or not prompt.contexts:
            return prompt.contexts
        ratings = self.rated(prompt)
        return tuple(prompt.contexts[each.rank - 1] for each in ratings if each.kept) if ratings else None
