"""`recomp_extractive`: a dual encoder picks the sentences of the hits that are nearest to the question (RECOMP).

RECOMP (Xu et al., 2023, arXiv 2310.04408, section 3.1): an encoder of Contriever's architecture, trained so that the
sentences that help a language model to answer are near to the question, scores every sentence of the hits by the inner
product of its vector, a mean over token states, with the question's. The best N are kept: 1 for Natural Questions and
TriviaQA, 2 for HotpotQA. The presets' names are those of the authors' README (github.com/carriex/recomp), which score
the sentences of the best 5 passages (refine.top_k=5).

Deviations: the sentences are the index's, and one is encoded as the prompt shows it, with its passage's title where
refine.text or refine.titles say so. What is kept stands in the order of the hits. A checkpoint's files say where a text
is cut, after 100 tokens for RECOMP's, which the authors' script reads to 512. The paper has no budget: where one is
set, and no number of sentences, the best fill it.

Without a model, the bundled all-MiniLM-L6-v2 scores, by the cosine. The published checkpoints were not available during
development: tests use tiny models of their architecture.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.encoders.base import Encoded
from vitalfew.tasks.encoders.transformer import TransformerEncoder
from vitalfew.tasks.models.encoder.recipe import EncoderPreset
from vitalfew.tasks.models.encoder.tower import Tower
from vitalfew.tasks.models.files import find_model, minilm_directory
from vitalfew.tasks.models.presets import source_of
from vitalfew.tasks.models.readings import Reading, Values, remembered, settled
from vitalfew.tasks.models.ticks import Counted, Tick, tokens_of
from vitalfew.tasks.refiners.base import Refiner, Retrieved
from vitalfew.tasks.refiners.sentences import Scored, Sentence, SentenceRefiner, Units, ranked, shown

SETTING = "refine.model"


class Compressor(TransformerEncoder):
    """One encoder for questions and sentences: the inner product of its vectors, as it pools them."""

    preset: ClassVar[EncoderPreset] = EncoderPreset(similarity="dot")
    workers: int | None = None

    def model_directory(self) -> Path:
        name = self.options.model
        return find_model(source_of("compressor", name), SETTING) if name else minilm_directory()

    @cached_property
    def passages(self) -> Tower:
        return self._tower(self.model_directory(), SETTING)


class RecompExtractive(SentenceRefiner):
    """A dual encoder keeps the sentences of the hits whose vectors are nearest to the question's (RECOMP)."""

    class Options(Batching, Refiner.Options):
        model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None,
            description="Encoder of questions and sentences: recomp-extractive-nq, recomp-extractive-tqa, "
            "recomp-extractive-hotpotqa, a Hugging Face name, or a directory; default: all-MiniLM-L6-v2.",
        )
        sentences: int | None = Field(
            None,
            ge=1,
            description="Number of sentences to keep. Default: 1; with max_words or max_tokens, as many as these "
            "allow.",
        )

    example: ClassVar[tuple[str, ...]] = ("refine.sentences=2",)
    role: ClassVar[str] = "encoder"
    counted: ClassVar[tuple[str, ...]] = ("sentences", "kept", "empty")

    def __init__(self, options: Options) -> None:
        """Raises FileNotFoundError, UnsupportedModel."""
        computing = options.model_dump(include={"model", "device", "precision", "batch_tokens"})
        super().__init__(options, Compressor(Compressor.Options(**computing)))
        _ = self.model.passages  # what is missing is told before anything is encoded

    def scores(
        self, questions: Sequence[str], hits: Retrieved, units: Units, tick: Tick
    ) -> tuple[list[list[float]], int]:
        count = Counted(tokens_of(tick))
        texts = [shown(own, parts, self.options) for own, parts in zip(hits, units, strict=True)]
        asked = [question for question, own in zip(questions, texts, strict=True) if own]
        of_questions = _vectors(asked, "question", self.model, self.model.encode_questions, count)
        of_sentences = _vectors([*chain(*texts)], "sentence", self.model, self.model.encode, count)
        tick(len(questions), 0)
        found: list[list[float]] = []
        for question, own in zip(questions, texts, strict=True):
            vectors = [of_sentences[text] for text in own]
            scores = np.stack(vectors).astype(np.float64) @ of_questions[question].astype(np.float64) if own else ()
            # The model gave no numbers for a text of zeros.
            pairs = zip(scores, vectors, strict=True)
            found.append([float(score) if vector.any() else -np.inf for score, vector in pairs])
        return found, count.tokens

    def kept(self, scored: Sequence[Scored]) -> list[Sentence]:
        """The sentences that are kept, the nearest first."""
        natural = len(scored) if self.options.has_budget else 1
        return [sentence for _, sentence in ranked(scored)[: self.options.sentences or natural]]


def _vectors(
    texts: Sequence[str], kind: str, model: Compressor, encode: Callable[[Sequence[str]], Encoded], count: Counted
) -> dict[str, Values]:
    """The vector of every text, float32 (d,), computed once; zero where the model gives no numbers."""
    distinct = [*dict.fromkeys(texts)]

    def read(due: Sequence[tuple[str, ...]]) -> list[Reading]:
        encoded = encode([text for (text,) in due])
        count(0, encoded.tokens)
        whole = np.where(np.isfinite(encoded.vectors).all(axis=1, keepdims=True), encoded.vectors, 0)
        share, rest = divmod(encoded.tokens, len(due))  # an encoder tells the tokens of all texts together
        return [Reading(settled(vector), share + (number < rest)) for number, vector in enumerate(whole)]

    known = remembered({**model.identity(), "of": kind}, [(text,) for text in distinct], read)
    return dict(zip(distinct, known, strict=True))
