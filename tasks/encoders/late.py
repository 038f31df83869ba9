"""Sentence and passage vectors from one forward pass over a passage.

This is late chunking's pooling (arXiv 2409.04701): means over the token states of one pass over the passage, which
become ParetoRAG's core and context (tasks/encoders/contexts.py). Special tokens and those of a prompt and of a title
belong to no sentence: they are in the passage, and in no core.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Encoding
from torch import Tensor

from vitalfew.tasks.encoders.base import LateEncoded, Spans
from vitalfew.tasks.models.batches import tokenised
from vitalfew.tasks.models.encoder.tower import Tower
from vitalfew.tasks.models.ticks import TextTick


@dataclass(frozen=True)
class _Window:
    """A run of consecutive tokens of a passage, and the sentence that every token belongs to (-1: none)."""

    passage: int
    ids: list[int]
    sentences: list[int]


class _Sums:
    """Sums of token states by sentence or passage, float32 (rows, hidden), and their numbers of tokens."""

    def __init__(self, tower: Tower, rows: int) -> None:
        self.tower, self.states = tower, torch.zeros((rows, tower.hidden), device=tower.device)
        self.tokens = self.states.new_zeros(rows)

    def add(self, rows: np.ndarray, states: Tensor) -> None:
        of = torch.from_numpy(rows).to(self.states.device)
        self.states.index_add_(0, of, states)
        self.tokens.index_add_(0, of, torch.ones_like(of, dtype=torch.float32))

    def means(self) -> np.ndarray:
        """The vectors. A sum has the direction of its mean: only where lengths count, it is divided."""
        divided = self.tower.recipe.layers or not self.tower.recipe.unit
        return self.tower.finish(self.states / self.tokens.clamp(min=1).unsqueeze(1) if divided else self.states)


def encode_late(tower: Tower, passages: Sequence[str], spans: Sequence[Spans], tick: TextTick) -> LateEncoded:
    """See `Encoder.encode_late`. Only for mean pooling."""
    counts = np.array([len(sentences) for sentences in spans], dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    prompt = tower.recipe.passage_prompt
    # One row more than there are sentences, for the tokens that belong to none.
    of_sentences, of_passages = _Sums(tower, int(first[-1]) + 1), _Sums(tower, len(passages))
    tokens = 0
    for start, encodings in tokenised(tower, prompt, passages):
        windows = []
        for row, encoding in enumerate(encodings, start):
            cuts = _cuts(encoding, prompt + passages[row], len(prompt), spans[row], tower.recipe.max_tokens)
            windows += [
                _Window(row, ids, [place + int(first[row]) if place >= 0 else -1 for place in of]) for ids, of in cuts
            ]
        ids = [window.ids for window in windows]
        tokens += sum(map(len, ids))
        for batch in tower.reported(ids, len(encodings) / len(passages), tick):
            some = [windows[row] for row in batch]
            states = tower.states([window.ids for window in some])
            of_sentences.add(np.concatenate([window.sentences for window in some]) % len(of_sentences.states), states)
            of_passages.add(np.repeat([window.passage for window in some], [len(w.ids) for w in some]), states)
    return LateEncoded(of_sentences.means()[:-1], of_passages.means(), tokens)


def _cuts(
    encoding: Encoding, text: str, prompt: int, spans: Spans, limit: int
) -> Iterator[tuple[list[int], list[int]]]:
    """A passage's tokens in windows of `limit`, cut between sentences where possible: (ids, sentences).

    `text` starts with a prompt of `prompt` characters, and the passage with a title if its first span does not start at
    0; both are repeated at the start of every window.
    """
    # An Encoding builds its lists anew at every access.
    tokens, offsets = encoding.ids, encoding.offsets
    inner = np.flatnonzero(np.array(encoding.special_tokens_mask) == 0)
    head, tail = (int(inner[0]), int(inner[-1]) + 1) if len(inner) else (len(tokens), len(tokens))
    starts = [_first_letter(text, *offset) for offset in offsets[head:tail]]
    own = head + int(np.searchsorted(starts, prompt))
    head += int(np.searchsorted(starts, prompt + spans[0][0]))
    prefix, suffix = tokens[: min(head, max(own, limit // 2))], tokens[tail:]  # sentences have half of it at least
    tokens, starts = tokens[head:tail], starts[len(starts) - (tail - head) :] if tail > head else []
    sentences = np.searchsorted([start + prompt for start, _ in spans], starts, side="right") - 1
    room = limit - len(prefix) - len(suffix)
    begin = 0
    while True:
        end = min(begin + room, len(tokens))
        if end < len(tokens) and sentences[end] == sentences[end - 1]:
            boundary = int(np.searchsorted(sentences, sentences[end]))
            end = boundary if boundary > begin else end  # a sentence longer than a window is cut at the limit
        ids = prefix + tokens[begin:end] + suffix
        if ids:
            yield ids, [-1] * len(prefix) + sentences[begin:end].tolist() + [-1] * len(suffix)
        begin = end
        if begin >= len(tokens):
            return


def _first_letter(text: str, start: int, end: int) -> int:
    """The start of a token without the space before it, which some tokenizers count as part of the word."""
    while start < end - 1 and text[start].isspace():
        start += 1
    return start
