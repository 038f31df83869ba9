"""The networks of reader and critic: an encoder with low-rank updates, and a head for spans and judgements.

The reader, after DPR (Karpukhin et al., 2020, arXiv 2004.04906), section 6.1: every token has a start and an end logit,
and the state of [CLS] gives a logit for whether the context has the answer.

The critic reads two kinds of window. A question with a context, as the reader reads them: the state of [CLS] gives
ISREL, and every token's logits as the start and as the end of an answer give what the context answers, from which ISSUP
follows. A question with an answer alone: the state of [CLS] gives ISUSE. The network knows by the types of its tokens
which kind it reads.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from vitalfew.tasks.models.small.tuned import TunedEncoder, widened
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
    """The sum of the start's and the end's logit of every span of at most `longest` tokens, float32
    (n, length · longest); the span from token i to token j is number i · longest + j − i. −inf outside the context.

    `start`, `end`: logits float32 (n, length), −inf where no answer may be.
    """
    ends = torch.nn.functional.pad(end, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)
    return (start.unsqueeze(-1) + ends).flatten(1)


class CriticLogits(NamedTuple):
    """float32. `start`, `end` (n, longest): −inf outside the context. `relevant`, `useful` (n,): the former means
    nothing for a window with an answer, the latter nothing for one with a context."""

    start: Tensor
    end: Tensor
    relevant: Tensor
    useful: Tensor


class CriticModel(TunedEncoder):
    """Token types: question, context, what the context shares with the question, and the answer."""

    types: ClassVar[int] = 4
    outputs: ClassVar[int] = 4

    def forward(self, batch: Batch) -> CriticLogits:
        start, end, relevant, useful = self.logits(batch).unbind(-1)
        outside = ~batch.context
        return CriticLogits(
            start.masked_fill(outside, -torch.inf), end.masked_fill(outside, -torch.inf), relevant[:, 0], useful[:, 0]
        )

    @torch.no_grad()
    def begin_from(self, reader: Mapping[str, Tensor]) -> None:
        """Take over a reader's updates, once prepared for training: ISREL and ISUSE begin as its answerability."""
        for name, parameter in self.trained().items():
            parameter.copy_(widened(reader[name].float(), len(parameter)))
