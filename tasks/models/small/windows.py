"""A question and a context as a BERT reads them: [CLS] question [SEP] context [SEP], long contexts in windows.

A critic also reads a question and an answer: [CLS] question [SEP] answer [SEP].

Token types are BERT's (0: question, 1: context) and two more: 2 for a context token that also occurs in the question,
the exact-match feature of DrQA (Chen et al., 2017, arXiv 1704.00051, section 3.2), by word pieces; 3 for an answer's
tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tokenizers import Encoding, Tokenizer

from vitalfew.tasks.models.batches import padded_rows
from vitalfew.tasks.models.files import UnsupportedModel

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SIZE = 256
"""Tokens of a window, special tokens included: the length that all-MiniLM-L6-v2 was trained with."""
OVERLAP = 64
"""Tokens that two windows share: longer than an answer, so that every answer is whole in one of the windows."""
MAX_QUESTION, MAX_ANSWER = 96, 64
QUESTION, CONTEXT, SHARED, ANSWER = range(4)
"""Token types."""


class PairWindow(NamedTuple):
    """`ids` and `types` of its tokens. Position `first` holds the context's token number `start`; `stop` is one past
    the last context token in the window."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    first: int
    start: int
    stop: int

    def token(self, position: int) -> int:
        """The number, in the context, of the token at a position."""
        return position - self.first + self.start

    def position(self, token: int) -> int:
        return token - self.start + self.first


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows padded to the longest: int64 (n, longest); `context` is True where an answer may be."""

    ids: "Tensor"
    types: "Tensor"
    mask: "Tensor"
    context: "Tensor"


def encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> dict[str, Encoding]:
    """The tokens of every distinct text, without special tokens."""
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, tokenizer.encode_batch(distinct, add_special_tokens=False), strict=True))


def special(tokenizer: Tokenizer, token: str) -> int:
    """The id of a special token. Raises UnsupportedModel if the vocabulary lacks it."""
    number = tokenizer.token_to_id(token)
    if number is None:
        raise UnsupportedModel(f"reader and critic need a BERT tokenizer, but this one has no {token}")
    return number


def windows(tokenizer: Tokenizer, question: Encoding, context: Encoding) -> list[PairWindow]:
    """The windows of one context; none if the context has no token."""
    start, end = special(tokenizer, "[CLS]"), special(tokenizer, "[SEP]")
    head, asked = (start, *question.ids, end), set(question.ids)
    kinds = [SHARED if token in asked else CONTEXT for token in context.ids]
    rows = []
    for first, stop in ranges(len(context.ids), SIZE - 1 - len(head)):
        types = (*(QUESTION,) * len(head), *kinds[first:stop], CONTEXT)
        rows.append(PairWindow((*head, *context.ids[first:stop], end), types, len(head), first, stop))
    return rows


def answer_window(tokenizer: Tokenizer, question: Encoding, answer: Encoding) -> PairWindow:
    """A question and an answer, of which the first `MAX_ANSWER` tokens are read; no context."""
    start, end = special(tokenizer, "[CLS]"), special(tokenizer, "[SEP]")
    head, tail = (start, *question.ids, end), (*answer.ids[:MAX_ANSWER], end)
    return PairWindow((*head, *tail), (QUESTION,) * len(head) + (ANSWER,) * len(tail), len(head), 0, 0)


def ranges(length: int, room: int) -> list[tuple[int, int]]:
    """Overlapping half-open ranges of `room` at most that cover `length` tokens, the last one as long as the others."""
    if length <= room:
        return [(0, length)] if length else []
    firsts = [*range(0, length - room, room - OVERLAP), length - room]
    return [(first, first + room) for first in firsts]


def padded(rows: Sequence[PairWindow], padding: int, device: "torch.device") -> Batch:
    import torch

    ids, mask = padded_rows([row.ids for row in rows], padding)
    types, _ = padded_rows([row.types for row in rows], 0)
    place = torch.arange(ids.shape[1])
    first, stop = torch.tensor([(row.first, row.position(row.stop)) for row in rows]).T[..., None]
    return Batch(*(each.to(device) for each in (ids, types, mask, (first <= place) & (place < stop))))
