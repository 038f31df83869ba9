"""A token classifier that says which tokens of a text to keep: two labels, of which the second is to keep it.

The layout of LLMLingua-2's checkpoints (Pan et al., 2024, arXiv 2403.12968): `XLMRobertaForTokenClassification`, or
BERT's. A text that is too long is read in parts.

Words are those of the authors' package: XLM-RoBERTa's tokenizer begins one after a blank, BERT's with a token that
continues no word; a punctuation mark that is a whole token begins one too.
"""

from collections.abc import Sequence
from string import punctuation
from typing import ClassVar, NamedTuple

import torch
from tokenizers import Encoding
from torch import Tensor, nn

from vitalfew.configs.options import Batching
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.loading import pretrained
from vitalfew.tasks.models.small.pairs import Pair, PairModel, exact_heads

_BLANK = "▁"
"""SentencePiece's sign for the blank before a word."""


class Word(NamedTuple):
    """A word's place in its text (code points, half-open), and its tokens as the authors' package counts them: by
    GPT-3.5, for which the sign of a blank is two more."""

    start: int
    end: int
    tokens: int


class TokenClassifier(PairModel):
    """A token classifier of Hugging Face with two labels. It reads the texts of pairs alone, not the questions."""

    judged: ClassVar[int] = 0
    cpu_tokens: ClassVar[int] = 1024  # less padding than 4096 has, where a core is filled by far fewer

    def __init__(self, name: str, options: Batching, section: str) -> None:
        super().__init__(name, options, section)
        if self.config.num_labels != 2:
            raise UnsupportedModel(
                f"{self.folder} must have two labels (drop, keep), got {self.config.num_labels}: --set "
                f"{section}.model=NAME, for example microsoft/llmlingua-2-xlm-roberta-large-meetingbank"
            )

    def load(self) -> nn.Module:
        from transformers import AutoModelForTokenClassification

        advice = "it is not a token classifier, and random numbers would replace them"
        model = pretrained(AutoModelForTokenClassification, self.folder, advice, dtype=torch.float32)
        return exact_heads(model, "classifier")

    def outputs(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        keep = self.network(**inputs).logits.softmax(dim=-1)[..., 1]
        return keep.amax(dim=1), keep

    def _encoded(self, pairs: Sequence[Pair]) -> list[Encoding]:
        self.tokenizer.enable_truncation(self.limit)
        return self.tokenizer.encode_batch([text for _, text in pairs])

    def words(self, texts: Sequence[str]) -> list[list[Word]]:
        if not texts:
            return []
        self.tokenizer.no_truncation()
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [_words(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]


def _words(text: str, encoding: Encoding) -> list[Word]:
    found: list[Word] = []
    last = None
    for token, word, (start, end) in zip(encoding.tokens, encoding.word_ids, encoding.offsets, strict=True):
        cost = 3 if token.startswith(_BLANK) else 1
        # Several tokens can stand for one character: "…" is three full stops, and stays one word.
        if not found or word != last or (token in punctuation and start >= found[-1].end):
            found.append(Word(start, end, cost))
        else:
            found[-1] = Word(found[-1].start, max(end, found[-1].end), found[-1].tokens + cost)
        last = word
    return [_trimmed(text, word) for word in found if text[word.start : word.end].strip()]


def _trimmed(text: str, word: Word) -> Word:
    """Strip the blanks that some tokenizers count as part of the token after them."""
    own = text[word.start : word.end]
    return word._replace(start=word.end - len(own.lstrip()), end=word.start + len(own.rstrip()))
