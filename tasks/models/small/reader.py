"""The networks of reader, critic and sentence filter: an encoder with low-rank updates, and a head.

The reader, after DPR (Karpukhin et al., 2020, arXiv 2004.04906), section 6.1: every token has a start and an end logit,
and the state of [CLS] gives a logit for whether the context has the answer.

The critic reads two kinds of window. A question with a context, as the reader reads them: the state of [CLS] gives
ISREL, and every token's logits as the start and as the end of an answer give what the context answers, from which ISSUP
follows. A question with an answer alone: the state of [CLS] gives ISUSE. The network knows by the types of its tokens
which kind it reads.

The filter gives every token a logit for whether it is in the sentence that counts, and the state of [CLS] one for
whether the text has such a sentence (sentence_filter.py).
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from vitalfew.tasks.models.small.tuned_encoder import TunedEncoder, widened
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


class FilterModel(TunedEncoder):
    """Token types: question, text, and tokens of the text that the question has too."""

    types: ClassVar[int] = 3
    outputs: ClassVar[int] = 2

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of the tokens (n, longest), −inf outside the text, and of the windows (n,); float32."""
        token, window = self.logits(batch).unbind(-1)
        return token.masked_fill(~batch.context, -torch.inf), window[:, 0]

    @torch.no_grad()
    def begin_from(self, reader: Mapping[str, Tensor]) -> None:
        """Take over a reader's updates, once prepared for training: tokens begin as starts of an answer, windows as its
        answerability."""
        for name, parameter in self.trained().items():
            given = reader[name].float()
            parameter.copy_(given[[0, 2]] if name.startswith("head.") else given)
