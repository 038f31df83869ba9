"""Windows with the places of their answers, and the loss of telling these: reader and critic learn it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor

from vitalfew.tasks.models.small.windows import Window, encoded, windows
from vitalfew.tasks.trainers.articles import CharSpan
from vitalfew.tasks.trainers.examples import Example


@dataclass(frozen=True, slots=True)
class Labelled:
    """A window, and the positions of the first and last tokens of its answers; empty if it has no answer."""

    window: Window
    starts: tuple[int, ...]
    ends: tuple[int, ...]


class Marked(Protocol):
    """What has answers at places: `Labelled`, for one."""

    @property
    def starts(self) -> tuple[int, ...]: ...

    @property
    def ends(self) -> tuple[int, ...]: ...


def labelled(tokenizer: Tokenizer, examples: Iterable[Example]) -> list[Labelled]:
    """The windows of examples, with the positions of their answers."""
    examples = list(examples)
    encodings = encoded(tokenizer, [text for example in examples for text in (example.question, example.context)])
    rows = []
    for example in examples:
        context = encodings[example.context]
        spans = [tokens for span in example.spans if (tokens := token_span(context, span))]
        for window in windows(tokenizer, encodings[example.question], context):
            inside = [(first, last) for first, last in spans if window.start <= first and last < window.stop]
            starts = sorted({window.position(first) for first, _ in inside})
            ends = sorted({window.position(last) for _, last in inside})
            rows.append(Labelled(window, tuple(starts), tuple(ends)))
    return rows


def token_span(context: Encoding, span: CharSpan) -> tuple[int, int] | None:
    """The first and last token of a character range."""
    first, last = context.char_to_token(span[0]), context.char_to_token(span[1] - 1)
    return None if first is None or last is None else (first, last)


def span_loss(start: Tensor, end: Tensor, rows: Sequence[Marked]) -> Tensor:
    """Minus the log-likelihood of the gold starts and ends, halved, summed over the rows that have an answer."""
    known = [number for number, row in enumerate(rows) if row.starts]
    loss = torch.zeros((), device=start.device)
    for logits, gold in ((start, [rows[n].starts for n in known]), (end, [rows[n].ends for n in known])):
        if known:
            loss = loss - marginal(logits[known], gold).sum() / 2
    return loss


def marginal(logits: Tensor, gold: Sequence[tuple[int, ...]]) -> Tensor:
    """The log of the summed probability of a row's gold positions: float32 (n, longest) → (n,)."""
    right = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
    for row, positions in enumerate(gold):
        right[row, list(positions)] = True
    return logits.log_softmax(-1).masked_fill(~right, -torch.inf).logsumexp(-1)
