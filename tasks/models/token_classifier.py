"""A token classifier that says which tokens of a text to keep: two labels, of which the second is to keep it.

The layout of LLMLingua-2's checkpoints (Pan et al., 2024, arXiv 2403.12968): `XLMRobertaForTokenClassification`, or
BERT's. A text that is too long is read in parts.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from tokenizers import Encoding
from torch import Tensor, nn

from configs.options import Batching
from tasks.models.files import UnsupportedModel
from tasks.models.pairs import InFloat32, Pair, PairModel
from tasks.models.pretrained import pretrained


class TokenClassifier(PairModel):
    """A token classifier of Hugging Face with two labels. It reads the texts of pairs alone, not the questions."""

    judged: ClassVar[int] = 0

    def __init__(self, name: str, options: Batching, section: str) -> None:
        super().__init__(name, options, section)
        if self.config.num_labels != 2:
            raise UnsupportedModel(
                f"{self.folder} tells {self.config.num_labels} kinds of tokens, two are due (drop it, keep it): --set "
                f"{section}.model=NAME, for example microsoft/llmlingua-2-xlm-roberta-large-meetingbank"
            )

    def load(self) -> nn.Module:
        from transformers import AutoModelForTokenClassification

        advice = "it is no token classifier, and random numbers would stand in for them"
        model = pretrained(AutoModelForTokenClassification, self.folder, advice, dtype=torch.float32)
        model.classifier = InFloat32(model.classifier)
        return model

    def outputs(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        keep = self.network(**inputs).logits.softmax(dim=-1)[..., 1]
        return keep.amax(dim=1), keep

    def _encoded(self, pairs: Sequence[Pair]) -> list[Encoding]:
        self.tokenizer.enable_truncation(self.limit)
        return self.tokenizer.encode_batch([text for _, text in pairs])
