"""The critic's network: an encoder with low-rank updates that reads two kinds of window, and a head for each judgement.

A question with a context, as the reader reads them: the state of [CLS] gives ISREL, and every token's logits as the
start and as the end of an answer give what the context answers, which ISSUP is told from. A question with an answer
alone: the state of [CLS] gives ISUSE. The types of its tokens tell the network which kind it reads.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from vitalfew.tasks.models.small.tuned import TunedEncoder, widened
from vitalfew.tasks.models.small.windows import Batch


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
