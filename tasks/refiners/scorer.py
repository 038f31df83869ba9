"""How relevant a text is to a question, from 0 to 1, for refiners that rank or filter: by a cross-encoder, or where
none is named by the embedded critic's ISREL (tasks/critics/embedded.py), which costs no download.
"""

from collections.abc import Sequence
from typing import Any

from vitalfew.configs.options import Scoring
from vitalfew.tasks.critics.embedded import Embedded
from vitalfew.tasks.models.small.evaluator import cross_encoder
from vitalfew.tasks.models.small.pairs import CrossEncoder, Pair
from vitalfew.tasks.models.ticks import Tick, Watched


class Scorer:
    """The model is loaded by the first score, and the same pair is scored once."""

    def __init__(self, options: Scoring) -> None:
        """Raises FileNotFoundError, UnsupportedModel, CriticUnavailable."""
        self.model: CrossEncoder | Embedded
        if options.model is None:
            computing = options.model_dump(include={"device", "precision", "batch_tokens"})
            self.model = Embedded(Embedded.Options(critic="embedded", **computing))
        else:
            self.model = cross_encoder(options.model, options, "refine")
        self.uses_gpu = self.model.uses_gpu
        self.workers = self.model.workers

    def identity(self) -> dict[str, Any]:
        return self.model.identity()

    def scores(
        self, questions: Sequence[str], texts: Sequence[Sequence[str]], tick: Tick
    ) -> tuple[list[list[float]], int]:
        """The score of every text of every question, and the tokens computed."""
        pairs = [(question, text) for question, own in zip(questions, texts, strict=True) for text in own]
        watched = Watched(tick, len(questions), len(dict.fromkeys(pairs)))
        known = dict(zip(dict.fromkeys(pairs), self._scored([*dict.fromkeys(pairs)], watched), strict=True))
        watched.finish()
        found = [[known[question, text] for text in own] for question, own in zip(questions, texts, strict=True)]
        return found, watched.tokens

    def _scored(self, pairs: Sequence[Pair], watched: Watched) -> list[float]:
        if isinstance(self.model, Embedded):
            return self.model.relevance(pairs, watched)
        return [self.model.relevance(reading.score) for reading in self.model.read(pairs, watched)]
