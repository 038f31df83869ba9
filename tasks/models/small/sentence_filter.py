"""A small network that chooses the sentence of a text to pass on, by the probability that it is the one that counts.

It reads a question and a whole text, so that it judges a sentence where it stands. The state of [CLS] gives a logit for
whether the text has such a sentence, every token a logit for whether it is in it, and P(sentence) = P(text has one) ·
P(sentence | text), where the second factor is the sentence's share of a softmax over the text's tokens: as DPR's reader
factors an answer's span (Karpukhin et al., 2020, arXiv 2004.04906, section 6.1). A reader's updates can begin it.

A long text is read in overlapping windows, and a sentence counts by the best of them. Of a question the first
`MAX_QUESTION` tokens are read. Trained by `vitalfew train cxmi`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np
from tokenizers import Encoding, Tokenizer

from vitalfew.configs.options import Batching
from vitalfew.storage.files import read_json
from vitalfew.tasks.models.batches import read_parts
from vitalfew.tasks.models.readings import Reading, Values, remembered, settled
from vitalfew.tasks.models.small.tuned import SETTINGS, TunedMethod
from vitalfew.tasks.models.small.windows import MAX_QUESTION, PairWindow, encoded, padded, special, windows
from vitalfew.tasks.models.ticks import Tick, no_tick

Request = tuple[str, ...]
"""A question, and the sentences of a text in their order; joined, they are the text."""

THRESHOLD = 0.5
"""The threshold of weights whose training chose none."""


class Part(NamedTuple):
    """A window of a text. `places`: (number in the text, first position, one past the last) of every sentence with
    tokens in the window; `whole`: the numbers of the sentences that are wholly in it."""

    window: PairWindow
    places: tuple[tuple[int, int, int], ...]
    whole: frozenset[int]


def parts_of(tokenizer: Tokenizer, requests: Sequence[Request]) -> list[list[Part]]:
    """The windows of every request; none of a text without a token."""
    texts = {request: "".join(request[1:]) for request in requests}
    encodings = encoded(tokenizer, [*(request[0] for request in requests), *texts.values()]) if requests else {}
    cut = {request[0]: _cut(encodings[request[0]]) for request in requests}
    parts = []
    for request in requests:
        text, ends = encodings[texts[request]], [*accumulate(map(len, request[1:]))]
        owners = [bisect_right(ends, start) for start, _ in text.offsets]  # the sentence of every token, by number
        parts.append([_part(window, owners) for window in windows(tokenizer, cut[request[0]], text)])
    return parts


def _cut(question: Encoding) -> Encoding:
    if len(question.ids) <= MAX_QUESTION:
        return question
    shorter = Encoding.merge([question])  # a copy: truncation changes it
    shorter.truncate(MAX_QUESTION)
    return shorter


def _part(window: PairWindow, owners: Sequence[int]) -> Part:
    own = owners[window.start : window.stop]
    numbers = sorted(set(own))
    places = tuple((n, window.first + own.index(n), window.first + bisect_right(own, n)) for n in numbers)
    cut = {*owners[window.start - 1 : window.start], *owners[window.stop : window.stop + 1]}
    return Part(window, places, frozenset({*numbers} - cut))


class SentenceFilter(TunedMethod):
    """A directory of weights, with the threshold that its training chose."""

    version: ClassVar[str] = "1"
    recipe: ClassVar[str] = "cxmi"

    def __init__(self, name: str, options: Batching, section: str) -> None:
        super().__init__(name, options, section)
        self.threshold: float = read_json(self.directory / SETTINGS).get("threshold", THRESHOLD)

    def network(self) -> type[Any]:
        from vitalfew.tasks.models.small.reader import FilterModel

        return FilterModel

    def read(self, requests: Sequence[Request], tick: Tick = no_tick) -> list[Values]:
        """The probabilities of every request's sentences, float32 (sentences,); 0 for one without a token."""
        return remembered(self.identity(), requests, lambda due: self._read(due, tick))

    def _read(self, requests: Sequence[Request], tick: Tick) -> list[Reading]:
        def key(part: Part) -> tuple[Any, ...]:
            return part.window.ids, part.window.types, part.places

        parts = parts_of(self.tokenizer, requests)
        read = read_parts(parts, key, self.batch_tokens, tick, self._probabilities, self.at_once)
        readings = []
        for request, own in zip(requests, read, strict=True):
            values = np.zeros(len(request) - 1, np.float32)
            for part, found in own:
                for (sentence, _, _), value in zip(part.places, found, strict=True):
                    values[sentence] = np.maximum(values[sentence], value)
            readings.append(Reading(settled(values), sum(len(part.window.ids) for part, _ in own)))
        return readings

    def _probabilities(self, rows: Sequence[Part]) -> list[list[float]]:
        """The probabilities of the sentences in every window."""
        import torch

        padding = special(self.tokenizer, "[PAD]")
        with torch.inference_mode():
            token, window = self.model(padded([row.window for row in rows], padding, self.device))
            shares, has = token.softmax(-1).double().cpu(), window.double().sigmoid().cpu()
            return [
                [float(has[number] * shares[number, first:stop].sum()) for _, first, stop in row.places]
                for number, row in enumerate(rows)
            ]
