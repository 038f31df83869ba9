"""What the critic `embedded` goes by, before calibration: what a context says to a question, what agrees with it.

The critic reads a context as an extractive reader does. Every short span of it gets a probability of being the answer,
P(window) · P(span | window) (Karpukhin et al., 2020, arXiv 2004.04906, section 6.1). An answer is supported by as much
of that probability as falls on spans that agree with it, by the measure by which an answer is right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Encoding

from vitalfew.tasks.metrics.answers import agree, normalise
from vitalfew.tasks.models.small.reader import CriticLogits, span_scores
from vitalfew.tasks.models.small.windows import Window

LONGEST = 30
"""Tokens of a span, at most."""
SPANS = 10
"""The most probable spans of a window are counted. On 718 relevant contexts of the articles that choose the weights, 5,
10 and 20 discriminate alike (AUC 0.851, 0.850, 0.848, by the embedded reader's weights)."""
SURPLUS = 1.8
"""What an answer's length counts against it, in log-odds per natural logarithm of words: of two answers that agree with
as much, the longer one has more that nothing supports. On 733 relevant contexts of the articles that choose the weights
it raises the AUC from 0.827 to 0.839 (cross-validated, by the embedded critic's weights)."""
SURE = 0.999
"""Shares nearer to 0 or 1 are not told apart."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Of a window: the logit of having the answer, and its most probable spans, by first and last token in the context
    and the natural logarithm of their probability within the window."""

    relevant: float
    spans: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True)
class Said:
    """What a context says to a question: the best window's logit of having the answer, and spans, normalised, with
    their probabilities."""

    relevant: float
    spans: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Log-odds for ISREL, ISSUP and ISUSE, not calibrated; None where there is no context, or no answer, to go by."""

    isrel: float | None
    issup: float | None
    isuse: float | None


def readings(rows: Sequence[Window], logits: CriticLogits) -> list[Reading]:
    """Of a batch of windows with contexts."""
    scores = span_scores(logits.start, logits.end, LONGEST)
    best, where = scores.topk(min(SPANS, scores.shape[1]))
    logprobs = (best - scores.logsumexp(-1, keepdim=True)).tolist()
    firsts = torch.div(where, LONGEST, rounding_mode="floor")
    lasts = firsts + where % LONGEST
    return [
        Reading(
            relevant,
            tuple(
                (row.token(first), row.token(last), logprob)
                for first, last, logprob in zip(*spans, strict=True)
                if logprob > -math.inf
            ),
        )
        for row, relevant, *spans in zip(
            rows, logits.relevant.tolist(), firsts.tolist(), lasts.tolist(), logprobs, strict=True
        )
    ]


def said(context: str, encoding: Encoding, windows: Sequence[Reading]) -> Said:
    """Of a context's windows, one at least."""
    total = torch.tensor([window.relevant for window in windows], dtype=torch.float64).logsumexp(0).item()
    offsets = encoding.offsets
    spans = tuple(
        (normalise(context[offsets[first][0] : offsets[last][1]]), math.exp(window.relevant - total + logprob))
        for window in windows
        for first, last, logprob in window.spans
    )
    return Said(max(window.relevant for window in windows), spans)


def support(answer: str, context: Said) -> float:
    """Log-odds, not calibrated, that an answer is what the context says to the question."""
    return agreement(answer, context) - SURPLUS * math.log(max(1, len(normalise(answer).split())))


def agreement(answer: str, context: Said) -> float:
    """Log-odds of the share of what the context says that agrees with the answer."""
    normalised = normalise(answer)
    agreeing = sum(share for span, share in context.spans if agree(span, normalised))
    share = min(max(agreeing / sum(share for _, share in context.spans), 1 - SURE), SURE)
    return math.log(share / (1 - share))
