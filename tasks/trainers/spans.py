"""What the reader learns: where answers stand in windows, and its loss.

Marginal likelihood of the gold starts and ends, as a question has several gold answers (Clark & Gardner, 2018, arXiv
1710.10723, section 3.2), for windows that have the answer; and for every window the cross entropy of whether it has it.
DPR (section 6.1) instead sets a question's contexts against each other in one softmax; judged one by one, they can be
put into batches of like length.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tasks.models.reader_model import ReaderModel
from tasks.models.windows import Batch, Window, encoded, windows
from tasks.trainers.articles import CharSpan
from tasks.trainers.examples import Example
from tasks.trainers.steps import Learner


@dataclass(frozen=True, slots=True)
class Labelled:
    """A window and the positions of the first and last token of each answer in it; none: it has no answer."""

    window: Window
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def labelled(tokenizer: Tokenizer, examples: Iterable[Example]) -> list[Labelled]:
    examples = list(examples)
    encodings = encoded(tokenizer, [text for each in examples for text in (each.question, each.context)])
    rows = []
    for example in examples:
        context = encodings[example.context]
        spans = [span for each in example.spans if (span := token_span(context, each))]
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


class SpanLearner(Learner[ReaderModel, Labelled]):
    def loss(self, rows: Sequence[Labelled], batch: Batch) -> Tensor:
        start, end, answerable = self.model(batch)
        has_answer = torch.tensor([float(bool(row.starts)) for row in rows], device=self.device)
        loss = binary_cross_entropy_with_logits(answerable, has_answer, reduction="sum")
        known = [number for number, row in enumerate(rows) if row.starts]
        for logits, gold in ((start, [rows[n].starts for n in known]), (end, [rows[n].ends for n in known])):
            if known:
                loss = loss - _marginal(logits[known], gold).sum() / 2
        return loss


def _marginal(logits: Tensor, gold: Sequence[tuple[int, ...]]) -> Tensor:
    """Logarithm of the probability of all gold positions of each row together."""
    right = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
    for row, positions in enumerate(gold):
        right[row, list(positions)] = True
    return logits.log_softmax(-1).masked_fill(~right, -torch.inf).logsumexp(-1)
