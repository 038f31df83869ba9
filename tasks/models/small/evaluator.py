"""CRAG's retrieval evaluator: a T5 with a classification head that says how relevant a text is to a question.

Yan et al., 2024 (arXiv 2401.15884, section 4.2): T5-large, tuned to give 1 for a relevant pair and -1 for another (mean
squared error). It reads "question [SEP] text" as one text, of which the authors cut all behind 512 tokens; here a
longer one is read in parts, each with the question, and the best counts, as with every cross-encoder (pairs.py).

The authors publish their checkpoint as pickles behind a link, so that it takes a copy in safetensors; it was not at
hand. Tests use a tiny model of its architecture.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from torch import nn

from vitalfew.configs.options import Batching
from vitalfew.tasks.models.encoder.recipe import read_config
from vitalfew.tasks.models.files import find_model
from vitalfew.tasks.models.small.pairs import CrossEncoder, InFloat32, Pair, Reading
from vitalfew.tasks.models.ticks import Tick

SEPARATOR = "[SEP]"


class Evaluator(CrossEncoder):
    """An encoder-decoder that classifies sequences, with one logit of about -1 to 1."""

    def load(self) -> nn.Module:
        model: Any = super().load()
        model.classification_head = InFloat32(model.classification_head)
        return model

    @cached_property
    def tokenizer(self) -> Tokenizer:
        tokenizer = self.read_tokenizer()
        end = tokenizer.id_to_token(self.config.eos_token_id)
        # The head reads the state at the one end token, which stands behind question and text together.
        tokenizer.post_processor = TemplateProcessing(
            single=f"$A {end}", pair=f"$A $B:1 {end}:1", special_tokens=[(end, self.config.eos_token_id)]
        )
        return tokenizer

    def read(self, pairs: Sequence[Pair], tick: Tick = lambda pairs, tokens: None) -> list[Reading]:
        return super().read([(f"{question} {SEPARATOR}", text) for question, text in pairs], tick)

    def relevance(self, score: float) -> float:
        """Its -1 to 1 as 0 to 1; a regression can leave that range."""
        return min(1.0, max(0.0, (score + 1) / 2))


def cross_encoder(name: str, options: Batching, section: str) -> CrossEncoder:
    """The cross-encoder in a directory, an encoder or CRAG's T5. Raises FileNotFoundError, UnsupportedModel."""
    config = read_config(find_model(name, f"{section}.model"))
    kind = Evaluator if getattr(config, "is_encoder_decoder", False) else CrossEncoder
    return kind(name, options, section)
