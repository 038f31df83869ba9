"""`embedded`: a small cross-encoder on all-MiniLM-L6-v2, so that a critique costs no download.

It gives a probability for Self-RAG's three aspects (Asai et al., 2023, arXiv 2310.11511, section 3.1, table 1). An
aspect is judged by the input that the table names for it, so that no judgement repeats another:

- ISREL, that the context has the answer to the question, from question and context alone.
- ISSUP, that this answer is what the context says, given that it says anything to the question: the share of what the
  context answers, as the critic reads it, that agrees with the answer, less for a longer one. It takes the question
  too, as in that table, for without it any words copied from a context are supported. It is as sure of an answer from
  a context that says nothing to the question, which ISREL judges; ISREL · ISSUP is the probability of both.
- ISUSE, that the answer is right, from question and answer, without the context. A small model knows few facts, so the
  score says little more than whether an answer is of the kind that is asked for.

The critic reads a context as an extractive reader does. Every short span of it gets a probability of being the answer,
P(window) · P(span | window) (Karpukhin et al., 2020, arXiv 2004.04906, section 6.1). An answer is supported by as much
of that probability as falls on spans that agree with it, by the measure by which an answer is right.

Deviations: a probability in place of reflection tokens, and usefulness is rightness. The probabilities are calibrated
by logistic regression on articles that are neither learnt from nor reported on (calibration.py).

A long context is read in overlapping windows: ISREL is the best window's, ISSUP weighs a window by its relevance. The
first `MAX_ANSWER` tokens of an answer are read for ISUSE. Where the answer is empty, ISSUP and ISUSE are 0; where the
context is, ISREL and ISSUP are. Trained by `vitalfew train critic`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field
from tokenizers import Encoding

from vitalfew.configs.evaluation import CritiqueConfig
from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.storage.files import read_json
from vitalfew.tasks.metrics.answers import agree, normalise
from vitalfew.tasks.models.batches import read_parts
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.readings import LEAST, Reading, finite, remembered
from vitalfew.tasks.models.small.tuned import SETTINGS, TunedMethod
from vitalfew.tasks.models.small.windows import (
    MAX_QUESTION,
    PairWindow,
    answer_window,
    encoded,
    padded,
    special,
    windows,
)
from vitalfew.tasks.models.ticks import Tick, no_tick, tokens_of
from vitalfew.tasks.raters.base import Judgement, RatedContext, Rater, RaterUnavailable
from vitalfew.tasks.raters.calibration import Calibration

if TYPE_CHECKING:
    from vitalfew.tasks.models.small.reader import CriticLogits

LONGEST = 30
"""Tokens of a span, at most."""
SPANS = 10
"""The most probable spans of a window are counted. On 718 relevant contexts of the articles that choose the weights, 5,
10 and 20 discriminate alike (AUC 0.851, 0.850, 0.848, by the bundled reader's weights)."""
SURPLUS = 1.8
"""The penalty for an answer's length, in log-odds per natural logarithm of words: of two answers that agree with as
much, the longer one has more that nothing supports. On 733 relevant contexts of the articles that choose the weights
it raises the AUC from 0.827 to 0.839 (cross-validated, by the embedded critic's weights)."""
SURE = 0.999
"""Shares nearer to 0 or 1 count as this."""
Pair = tuple[str, str]
"""A question with a context, or with an answer."""


class Said(NamedTuple):
    """What a context, or a window of it, says to a question: the (best window's) logit of having the answer, and its
    most probable spans with their probabilities: a window's are first and last token and the natural logarithm of the
    probability within it, a context's are normalised texts."""

    relevant: float
    spans: Sequence[Any]


class LogOdds(NamedTuple):
    """Log-odds for ISREL, ISSUP and ISUSE, not calibrated; None where there is no context, or no answer, to go by."""

    isrel: float | None
    issup: float | None
    isuse: float | None


class Embedded(TunedMethod, Rater):
    """A small embedded cross-encoder: is the context relevant, is the answer supported and right? No download."""

    class Options(CritiqueConfig, Batching, extra="forbid"):
        model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None, description="Directory that `vitalfew train` wrote; default: the bundled critic."
        )

    version: ClassVar[str] = "3"
    recipe: ClassVar[str] = "critic"

    def __init__(self, options: Options) -> None:
        self.options = options
        try:
            super().__init__(options.model, options, "critique")
        except (FileNotFoundError, UnsupportedModel) as error:
            raise RaterUnavailable(f"embedded: {error}") from error
        self.calibration = Calibration.of(read_json(self.directory / SETTINGS).get("calibration"))

    def network(self) -> type[Any]:
        from vitalfew.tasks.models.small.reader import CriticModel

        return CriticModel

    def rate(self, batch: Sequence[RatedContext], tick: Tick = no_tick) -> list[Judgement]:
        lengths = self._lengths(candidate.question for candidate in batch)
        judgements = []
        for candidate, logits in zip(batch, self.evidence(batch, tick), strict=True):
            if (length := lengths[candidate.question]) > MAX_QUESTION:
                error = f"the question has {length} tokens, the critic takes at most {MAX_QUESTION}"
                judgements.append(Judgement(error=error))
            else:
                lines = {name: (logit, getattr(self.calibration, name)) for name, logit in logits._asdict().items()}
                scores = {name: 0.0 if logit is None else line(logit) for name, (logit, line) in lines.items()}
                judgements.append(Judgement(scores))
        return judgements

    def relevance(self, pairs: Sequence[Pair], tick: Tick = no_tick) -> list[float]:
        """ISREL of (question, context) pairs, from 0 to 1: a scorer of contexts that needs no answer. 0 where the
        context is empty, or the question longer than `MAX_QUESTION` tokens."""
        identity = {**self.identity(), "of": "relevance"}
        values = remembered(identity, pairs, lambda due: self._relevance(due, tick), tick)
        return [self.calibration.isrel(float(own[0])) if len(own) else 0.0 for own in values]

    def _relevance(self, pairs: Sequence[Pair], tick: Tick) -> list[Reading]:
        """The logit of every pair, before calibration; none where the context says nothing."""
        read = self._contexts(pairs, tick)
        tick(len(pairs) - len({*pairs}), 0)
        lengths = self._lengths(text for pair in pairs for text in pair)
        logits = [np.array([read[pair].relevant] if pair in read else [], np.float32) for pair in pairs]
        return [
            Reading(finite(logit, LEAST), sum(lengths[text] for text in pair))
            for logit, pair in zip(logits, pairs, strict=True)
        ]

    def evidence(self, batch: Sequence[RatedContext], tick: Tick = no_tick) -> list[LogOdds]:
        """The log-odds of every candidate before calibration; None where the question is too long."""
        read = [(each.question, each.context) for each in batch]
        contexts = self._contexts(read, tick)
        tick(len(read) - len({*read}), 0)
        useful = self._useful([(each.question, each.answer) for each in batch if each.answer.strip()], tick)
        found = []
        for each in batch:
            context, right = contexts.get((each.question, each.context)), useful.get((each.question, each.answer))
            supported = support(each.answer, context) if context and right is not None else None
            found.append(LogOdds(context.relevant if context else None, supported, right))
        return found

    def _lengths(self, texts: Iterable[str]) -> dict[str, int]:
        """Tokens of every distinct text."""
        return {text: len(encoding.ids) for text, encoding in encoded(self.tokenizer, [*texts]).items()}

    def _contexts(self, pairs: Sequence[Pair], tick: Tick) -> dict[Pair, Said]:
        """The reading of every distinct pair whose context says anything to its question. `tick` counts them."""
        texts, distinct = self._readable(pairs)
        parts = [windows(self.tokenizer, texts[question], texts[context]) for question, context in distinct]
        read = read_parts(parts, tuple, self.batch_tokens, tick, self._read_contexts, self.at_once)
        tick(len({*pairs}) - len(distinct), 0)
        return {
            pair: _of_context(pair[1], texts[pair[1]], [reading for _, reading in own])
            for pair, own in zip(distinct, read, strict=True)
            if own
        }

    def _useful(self, pairs: Sequence[Pair], tick: Tick) -> dict[Pair, float]:
        """The logit of being right of every distinct pair of question and answer."""
        texts, distinct = self._readable(pairs)
        parts = [[answer_window(self.tokenizer, texts[question], texts[answer])] for question, answer in distinct]

        def useful(rows: Sequence[PairWindow]) -> list[float]:
            return self._logits(rows).useful.tolist()

        read = read_parts(parts, tuple, self.batch_tokens, tokens_of(tick), useful, self.at_once)
        return {pair: logit for pair, [(_, logit)] in zip(distinct, read, strict=True)}

    def _readable(self, pairs: Sequence[Pair]) -> tuple[dict[str, Encoding], list[Pair]]:
        """The encodings of all texts, and the distinct pairs whose question is short enough."""
        texts = encoded(self.tokenizer, [text for pair in pairs for text in pair])
        return texts, [pair for pair in dict.fromkeys(pairs) if len(texts[pair[0]].ids) <= MAX_QUESTION]

    def _logits(self, rows: Sequence[PairWindow]) -> "CriticLogits":
        import torch

        with torch.inference_mode():  # which holds in one thread
            return self.model(padded(rows, special(self.tokenizer, "[PAD]"), self.device))

    def _read_contexts(self, rows: Sequence[PairWindow]) -> list[Said]:
        import torch

        from vitalfew.tasks.models.small.reader import span_scores

        logits = self._logits(rows)
        scores = span_scores(logits.start, logits.end, LONGEST)
        best, where = scores.topk(min(SPANS, scores.shape[1]))
        logprobs = (best - scores.logsumexp(-1, keepdim=True)).tolist()
        firsts = torch.div(where, LONGEST, rounding_mode="floor")
        columns = (logits.relevant.tolist(), firsts.tolist(), (firsts + where % LONGEST).tolist(), logprobs)
        return [
            Said(
                relevant,
                [
                    (row.token(first), row.token(last), logprob)
                    for first, last, logprob in zip(*spans, strict=True)
                    if logprob > -math.inf
                ],
            )
            for row, relevant, *spans in zip(rows, *columns, strict=True)
        ]


def _of_context(context: str, encoding: Encoding, windows: Sequence[Said]) -> Said:
    """The reading of a context, by its windows, of which there is one at least."""
    import torch

    total = torch.tensor([window.relevant for window in windows], dtype=torch.float64).logsumexp(0).item()
    offsets = encoding.offsets
    spans = [
        (normalise(context[offsets[first][0] : offsets[last][1]]), math.exp(window.relevant - total + logprob))
        for window in windows
        for first, last, logprob in window.spans
    ]
    return Said(max(window.relevant for window in windows), spans)


def support(answer: str, context: Said) -> float:
    """Log-odds, not calibrated, that an answer is what the context says to the question: of the share of what it says
    that agrees with the answer, less for a longer one."""
    normalised = normalise(answer)
    agreeing = sum(share for span, share in context.spans if agree(span, normalised))
    share = min(max(agreeing / sum(share for _, share in context.spans), 1 - SURE), SURE)
    return math.log(share / (1 - share)) - SURPLUS * math.log(max(1, len(normalised.split())))
