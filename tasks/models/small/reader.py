"""The reader's network: an encoder with low-rank updates and a head for start, end and answerability.

DPR (Karpukhin et al., 2020, arXiv 2004.04906), section 6.1: every token has a start and an end logit, and the state of
[CLS] gives a logit for whether the context has the answer.
"""

from typing import ClassVar

import torch
from torch import Tensor

from vitalfew.tasks.models.small.tuned import TunedEncoder
from vitalfew.tasks.models.small.windows import Batch


class ReaderModel(TunedEncoder):
    """Token types: question, context, and context tokens that the question has too."""

    types: ClassVar[int] = 3
    outputs: ClassVar[int] = 3

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Start and end logits (n, longest), −inf outside the context, and answerability logits (n,); float32."""
        start, end, answerable = self.logits(batch).unbind(-1)
        outside = ~batch.context
        return start.masked_fill(outside, -torch.inf), end.masked_fill(outside, -torch.inf), answerable[:, 0]


def span_scores(start: Tensor, end: Tensor, longest: int) -> Tensor:
    """Of every span of at most `longest` tokens, the sum of its start's and its end's logit, float32
    (n, length · longest); the span from token i to token j is number i · longest + j − i. −inf outside the context.

    `start`, `end`: logits float32 (n, length), −inf where no answer may be.
    """
    ends = torch.nn.functional.pad(end, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)
    return (start.unsqueeze(-1) + ends).flatten(1)
