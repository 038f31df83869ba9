"""Sentence and passage vectors from one forward pass over a passage.

This is late chunking's pooling (arXiv 2409.04701): means over the token states of one pass over the passage, which
become ParetoRAG's core and context (tasks/encoders/contexts.py). Special tokens and those of a prompt and of a title
belong to no sentence: they are in the passage, and in no core.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from tokenizers import Encoding

from vitalfew.tasks.encoders.base import LateEncoded, Spans
from vitalfew.tasks.models.batches import tokenised
from vitalfew.tasks.models.encoder.networks import Vectors
from vitalfew.tasks.models.encoder.tower import Tower
from vitalfew.tasks.models.ticks import TextTick


class _Sums:
    """Sums of token states by sentence or passage, float32 (rows, hidden), and their numbers of tokens."""

    def __init__(self, tower: Tower, rows: int) -> None:
        self.tower = tower
        self.states, self.tokens = np.zeros((rows, tower.hidden), np.float32), np.zeros(rows, np.float32)

    def add(self, rows: np.ndarray, lengths: np.ndarray, states: Vectors) -> None:
        np.add.at(self.states, rows, states)
        np.add.at(self.tokens, rows, lengths)

    def means(self) -> Vectors:
        """The vectors. A sum has the direction of its mean, so it is divided only where lengths count."""
        divided = self.tower.recipe.layers or not self.tower.recipe.unit
        return self.tower.finish(self.states / np.maximum(self.tokens, 1)[:, None] if divided else self.states)


class _Runs(NamedTuple):
    """Runs of tokens of one sentence, or of none (-1), in a window: their sentences, passages and numbers of tokens."""

    sentences: np.ndarray
    passages: np.ndarray
    lengths: np.ndarray


def _runs(sentences: np.ndarray, passage: int) -> _Runs:
    """`sentences`: of every token of a window, int64 (tokens,)."""
    starts = np.flatnonzero(np.diff(sentences, prepend=sentences[0] - 1))
    return _Runs(sentences[starts], np.full(len(starts), passage), np.diff(starts, append=len(sentences)))


def encode_late(tower: Tower, passages: Sequence[str], spans: Sequence[Spans], tick: TextTick) -> LateEncoded:
    """See `Encoder.encode_late`. Only for mean pooling."""
    tower.expect(len(passages))
    first = np.cumsum([0, *map(len, spans)])
    prompt = tower.recipe.passage_prompt
    # One row more than there are sentences, for the tokens that belong to none.
    of_sentences, of_passages = _Sums(tower, int(first[-1]) + 1), _Sums(tower, len(passages))
    tokens = 0
    for start, encodings in tokenised(tower, prompt, passages):
        windows: list[tuple[list[int], _Runs]] = []
        for row, encoding in enumerate(encodings, start):
            cuts = _cuts(encoding, prompt + passages[row], len(prompt), spans[row], tower.recipe.max_tokens)
            windows += [(ids, _runs(np.where(own < 0, -1, own + first[row]), row)) for ids, own in cuts]
        ids = [ids for ids, _ in windows]
        tokens += sum(map(len, ids))
        compute = partial(_sums, tower, windows)
        for _, (runs, sums) in tower.computed(ids, compute, len(encodings) / len(passages), tick):
            of_sentences.add(runs.sentences, runs.lengths, sums)
            of_passages.add(runs.passages, runs.lengths, sums)
    return LateEncoded(of_sentences.means()[:-1], of_passages.means(), tokens)


def _sums(tower: Tower, windows: Sequence[tuple[list[int], _Runs]], batch: list[int]) -> tuple[_Runs, Vectors]:
    """The runs of a batch of windows, and the sums of their states, float32 (runs, hidden)."""
    ids, runs = zip(*(windows[row] for row in batch), strict=True)
    whole = _Runs(*map(np.concatenate, zip(*runs, strict=True)))
    return whole, tower.sums(ids, whole.lengths.tolist())


def _cuts(
    encoding: Encoding, text: str, prompt: int, spans: Spans, limit: int
) -> Iterator[tuple[list[int], np.ndarray]]:
    """A passage's tokens in windows of `limit`, cut between sentences where possible: ids, and the sentence of every
    token, by number, int64 (tokens,), -1 for none.

    `text` starts with a prompt of `prompt` characters, and the passage with a title if its first span does not start at
    0; both are repeated at the start of every window.
    """
    # An Encoding builds its lists again at every access.
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
            yield ids, np.pad(sentences[begin:end], (len(prefix), len(suffix)), constant_values=-1)
        begin = end
        if begin >= len(tokens):
            return


def _first_letter(text: str, start: int, end: int) -> int:
    """The start of a token without the space before it, which some tokenizers count as part of the word."""
    while start < end - 1 and text[start].isspace():
        start += 1
    return start
