"""A small network that says which sentence of a text to pass on, by the probability that it is the one that counts.

It reads a question and a whole text, so that a sentence is judged where it stands. The state of [CLS] gives a logit for
whether the text has such a sentence, every token a logit for whether it is in it, and P(sentence) = P(text has one) ·
P(sentence | text), where the second factor is the sentence's share of a softmax over the text's tokens: as DPR's reader
factors an answer's span (Karpukhin et al., 2020, arXiv 2004.04906, section 6.1). A reader's updates can begin it.

A long text is read in overlapping windows, and a sentence counts by the best of them. Of a question the first
`MAX_QUESTION` tokens are read. Trained by `vitalfew train cxmi`.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor

from vitalfew.configs.options import Batching
from vitalfew.storage.files import read_json
from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.device import InBatches, require_device
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.loading import loading
from vitalfew.tasks.models.readings import Reading, Values, remembered, settled
from vitalfew.tasks.models.small.tuned import SETTINGS, TunedEncoder, Weights, read_tokenizer
from vitalfew.tasks.models.small.windows import MAX_QUESTION, Batch, PairWindow, encoded, padded, special, windows
from vitalfew.tasks.models.ticks import Tick, Watched, no_tick

Request = tuple[str, ...]
"""A question, and the sentences of a text in their order: the text is what they are joined."""

THRESHOLD = 0.5
"""Of weights whose training chose none."""


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


@dataclass(frozen=True, slots=True)
class Part:
    """A window of a text. `places`: of the sentences that it has tokens of, each's number in the text, its first
    position and one past its last; `whole`: the numbers of those that are in it altogether."""

    window: PairWindow
    places: tuple[tuple[int, int, int], ...]
    whole: frozenset[int]


def parts_of(tokenizer: Tokenizer, requests: Sequence[Request]) -> list[list[Part]]:
    """The windows of every request; none of a text without a token."""
    texts = {request: "".join(request[1:]) for request in requests}
    encodings = encoded(tokenizer, [*(request[0] for request in requests), *texts.values()]) if requests else {}
    cut = {request[0]: _cut(encodings[request[0]]) for request in requests}
    return [
        [
            _part(window, _sentences(encodings[texts[request]], request[1:]))
            for window in windows(tokenizer, cut[request[0]], encodings[texts[request]])
        ]
        for request in requests
    ]


def _cut(question: Encoding) -> Encoding:
    if len(question.ids) <= MAX_QUESTION:
        return question
    shorter = Encoding.merge([question])  # a copy: truncation changes it
    shorter.truncate(MAX_QUESTION)
    return shorter


def _sentences(text: Encoding, sentences: Sequence[str]) -> list[int]:
    """The sentence of every token, by number."""
    ends = [*accumulate(map(len, sentences))]
    return [bisect_right(ends, start) for start, _ in text.offsets]


def _part(window: PairWindow, owners: Sequence[int]) -> Part:
    own = owners[window.start : window.stop]
    numbers = sorted(set(own))
    places = tuple((n, window.first + own.index(n), window.first + bisect_right(own, n)) for n in numbers)
    cut = {*owners[window.start - 1 : window.start], *owners[window.stop : window.stop + 1]}
    return Part(window, places, frozenset({*numbers} - cut))


class SentenceFilter(InBatches):
    """A directory of weights, with the threshold that its training chose. The first `read` loads it, not the
    constructor."""

    version: ClassVar[str] = "1"
    cpu_tokens: ClassVar[int] = 2048
    workers: int | None = None

    def __init__(self, directory: Path, options: Batching, section: str) -> None:
        """`section`: of the settings, for messages. Raises FileNotFoundError, UnsupportedModel, with the remedy."""
        self.directory, self.section = directory, section
        remedy = (
            f"leave {section}.model out to use the bundled weights, or set it to a directory that "
            "`vitalfew train cxmi --out` wrote"
        )
        try:
            self.weights = Weights.at(directory, remedy)
        except KeyError as error:
            raise UnsupportedModel(f"{directory / SETTINGS} does not name its base; {remedy}") from error
        self.threshold: float = read_json(directory / SETTINGS).get("threshold", THRESHOLD)
        super().__init__(options)

    def files(self) -> dict[str, str]:
        return self.weights.digests()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return read_tokenizer(self.weights.base)

    @cached_property
    @loading()
    def model(self) -> FilterModel:
        require_device(self.device, self.dtype, self.section)
        torch.set_num_threads(1)  # parallelism comes from workers
        model = FilterModel(self.weights.base, self.dtype)
        model.merge(self.weights.tensors())
        return model.for_inference(self.device, self.batch_tokens)

    def read(self, requests: Sequence[Request], tick: Tick = no_tick) -> list[Values]:
        """The probabilities of every request's sentences, float32 (sentences,). A request is read once, and remembered.
        A sentence without a token has 0."""
        return remembered(self.identity(), requests, lambda due: self._read([requests[place] for place in due], tick))

    def _read(self, requests: Sequence[Request], tick: Tick) -> list[Reading]:
        parts = parts_of(self.tokenizer, requests)
        values = [np.zeros(len(request) - 1, np.float32) for request in requests]
        tokens = [sum(len(part.window.ids) for part in own) for own in parts]
        rows = [(number, part) for number, own in enumerate(parts) for part in own]
        # In an order of their own, so that what is in a batch does not depend on the order of the requests.
        rows.sort(key=lambda row: (row[1].window.ids, row[1].window.types, row[1].places))
        watched = Watched(tick, len(requests), len(rows))
        for places in batches([len(part.window.ids) for _, part in rows], self.batch_tokens):
            some = [rows[place] for place in places]
            for (number, part), found in zip(some, self._probabilities([part for _, part in some]), strict=True):
                for (sentence, _, _), value in zip(part.places, found, strict=True):
                    values[number][sentence] = np.maximum(values[number][sentence], value)
            watched(len(some), sum(len(part.window.ids) for _, part in some))
        return [Reading(settled(own), count) for own, count in zip(values, tokens, strict=True)]

    @torch.inference_mode()
    def _probabilities(self, rows: Sequence[Part]) -> list[list[float]]:
        """Of the sentences in every window."""
        token, window = self.model(padded([row.window for row in rows], special(self.tokenizer, "[PAD]"), self.device))
        shares, has = token.softmax(-1).double().cpu(), window.double().sigmoid().cpu()
        return [
            [float(has[number] * shares[number, first:stop].sum()) for _, first, stop in row.places]
            for number, row in enumerate(rows)
        ]
