"""`copier`: a policy that writes by copying words of the texts it reads, one after another; nothing can be invented.

Ours, for machines without a T5 (Oreo's backbone, arXiv 2502.13019, section 2.1). The encoder is MiniLM with the
reader's low-rank updates; it reads the question with one text at a time, and the states of all texts stand side by side
in one memory, as in fusion-in-decoder (Izacard & Grave 2021, arXiv 2007.01282). Texts have no order in it: they are
sorted by themselves, so that permuted texts give the same bytes. The decoder points into the memory (pointer networks,
Vinyals et al. 2015, arXiv 1506.03134): an action is a word that was not used yet, or the end. Its input is the state of
the word that was copied last, and a learned bias by the distance from that word lets it go on where it is.

A word is what BERT's tokeniser separates (words, numbers, punctuation marks); its state is that of its first piece.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor, cat, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.encoder.recipe import read_tokenizer
from vitalfew.tasks.models.small.copied import CopiedRun, joined, rendered, trimmed
from vitalfew.tasks.models.small.policy import Decoded, Policy, PolicyOutput, PolicySource
from vitalfew.tasks.models.small.tuned import Weights
from vitalfew.tasks.models.small.tuned_encoder import TunedEncoder, weight_files
from vitalfew.tasks.models.small.windows import MAX_QUESTION, PairWindow, encoded, padded, special, windows

HEAD = 32
"""The width of a head."""


class DecoderLayer(nn.Module):
    """Attention to the steps so far and to the memory, then two dense layers; all after a norm, added to their
    input."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.heads = max(1, width // HEAD)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.asks, self.kept, self.found = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def remembered(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the memory, by head."""
        key, value = self.kept(memory).chunk(2, -1)
        return self._split(key).contiguous(), self._split(value).contiguous()

    def forward(
        self, states: Tensor, earlier: tuple[Tensor, Tensor] | None, memory: tuple[Tensor, Tensor], mask: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """`states` (n, steps, d); `earlier`: keys and values of the steps before. Returns those of all steps too."""
        query, key, value = map(self._split, self.own(self.norms[0](states)).chunk(3, -1))
        if earlier:
            key, value = cat([earlier[0], key], 2), cat([earlier[1], value], 2)
        attended = scaled_dot_product_attention(query, key, value, is_causal=earlier is None)
        states = states + self.dropout(self.joined(self._merged(attended)))
        asked = self._split(self.asks(self.norms[1](states)))
        found = scaled_dot_product_attention(asked, *memory, attn_mask=mask[:, None, None, :])
        states = states + self.dropout(self.found(self._merged(found)))
        return states + self.dropout(self.dense(self.norms[2](states))), (key, value)

    def _split(self, states: Tensor) -> Tensor:
        return states.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    @staticmethod
    def _merged(states: Tensor) -> Tensor:
        return states.transpose(1, 2).flatten(2)


LAYERS = 2
"""Layers of the decoder."""
NEAR = 8
"""The greatest distance from the word copied last that has a separate bias."""
ON = 8.0
"""The bias of the next word before training, which need not learn that texts go on: e to this is 3,000, so that among a
thousand words the next one has three quarters of the probability."""
APART = 100
"""The distance between the words of two texts: a word of another text is never near."""
NOWHERE = -(10**6)
ON_CPU = 1024
"""Tokens, padding included, that a CPU reads together: more have more padding, and are no faster."""


class Words(NamedTuple):
    """A copier's input: windows, and for every word of the texts its window, the position in it, its place (near words
    have near places) and its part of a text."""

    windows: tuple[PairWindow, ...]
    window: tuple[int, ...]
    position: tuple[int, ...]
    place: tuple[int, ...]
    runs: tuple[CopiedRun, ...]


class CopierMemory(NamedTuple):
    """States of the words, float32 (n, 1 + most words, d), slot 0 for the end; `mask`: False for padding; `places`: of
    the words, int64."""

    states: Tensor
    mask: Tensor
    places: Tensor

    def of(self, rows: Sequence[int]) -> "CopierMemory":
        index = torch.tensor(rows, device=self.states.device)
        return CopierMemory(self.states[index], self.mask[index], self.places[index])


class CopierState(NamedTuple):
    """The state between two steps: keys and values of the steps so far and of the memory, by layer; the used slots,
    bool (n, slots)."""

    own: tuple[tuple[Tensor, Tensor], ...]
    memory: tuple[tuple[Tensor, Tensor], ...]
    used: Tensor

    def of(self, rows: Sequence[int]) -> "CopierState":
        index = torch.tensor(rows, device=self.used.device)
        own, memory = (tuple((key[index], value[index]) for key, value in pairs) for pairs in (self.own, self.memory))
        return CopierState(own, memory, self.used[index])


class Copier(TunedEncoder, Policy):
    """Token types: question, context, and context tokens that the question has too. The encoder's head makes the memory
    of the token states."""

    types: ClassVar[int] = 3
    outputs: ClassVar[int | None] = None
    end = 0

    def __init__(self, base: Path, dtype: torch.dtype, limit: int, batch_tokens: int, dropout: float = 0.0) -> None:
        """`limit`: tokens of a question's texts, at most; `batch_tokens`: of the windows that are read together."""
        super().__init__(base, dtype, dropout)
        self.limit, self.batch_tokens = limit, batch_tokens
        self.width = width = self.head.out_features
        self.begin, self.ended = nn.Parameter(torch.randn(width) * 0.02), nn.Parameter(torch.randn(width) * 0.02)
        self.layers: Sequence[DecoderLayer] = nn.ModuleList(DecoderLayer(width, dropout) for _ in range(LAYERS))  # type: ignore[assignment]
        self.norm, self.query = nn.LayerNorm(width), nn.Linear(width, width)
        self.near = nn.Parameter(torch.zeros(2 * NEAR + 2))
        with torch.no_grad():
            self.near[NEAR + 1] = ON
        self.tokenizer: Tokenizer = read_tokenizer(base)
        self.padding = special(self.tokenizer, "[PAD]")
        self.frozen = False

    def freeze(self) -> None:
        super().freeze()
        self.fix(len(self.encoder.encoder.layer))

    def learn_last(self, layers: int) -> None:
        own = len(self.encoder.encoder.layer)
        if layers > own:
            raise ConfigError(f"sft.layers must be at most {own}, the number of the encoder's layers, got {layers}")
        self.fix(own - layers)

    def begin_from(self, weights: Weights) -> None:
        """Prepare for training with a reader's updates of the encoder, or with all weights of another copier."""
        self.begun_from, given = weights.name, weights.tensors()
        ranks = [tensor.shape[0] for name, tensor in given.items() if name.endswith(".a")]
        self.prepare_for_training(ranks[0])
        own = self.trained()
        with torch.no_grad():
            for name, tensor in given.items():
                if name in own and own[name].shape == tensor.shape:
                    own[name].copy_(tensor)

    def files(self) -> dict[str, bytes]:
        return weight_files(self, self.begun_from, policy="copier")

    def decoder(self) -> dict[str, nn.Parameter]:
        """The decoder's parameters, by the names under which they are saved."""
        return {name: own for name, own in self.trained().items() if not name.startswith(("encoder.", "head."))}

    def read(self, questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[PolicySource]:
        encodings = encoded(self.tokenizer, [text for own in (questions, *texts) for text in own])
        return [self._source(question, own, encodings) for question, own in zip(questions, texts, strict=True)]

    def _source(self, question: str, texts: Sequence[str], encodings: dict[str, Encoding]) -> PolicySource:
        asked = encodings[question]
        if len(asked.ids) > MAX_QUESTION:
            asked.truncate(MAX_QUESTION)
        lengths = accumulate(len(encodings[text].ids) for text in texts)
        kept = [text for text, length in zip(texts, lengths, strict=True) if length <= self.limit]
        whole: list[PairWindow] = []
        rows: list[tuple[int, int, int, CopiedRun]] = []
        for number, text in enumerate(sorted({*kept})):
            own, first = windows(self.tokenizer, asked, encodings[text]), len(whole)
            whole += own
            for token, start, stop in _words(encodings[text]):
                near = _central(own, token)
                run = CopiedRun(kept.index(text), start, stop)
                rows.append((first + near, own[near].position(token), len(rows) + APART * number, run))
        tokens = sum(len(one.ids) for one in whole)
        content = Words(tuple(whole), *(zip(*rows, strict=True) if rows else ((), (), (), ())))
        return PolicySource(tuple(kept), tokens, len(texts) - len(kept), content)

    def encode(self, sources: Sequence[PolicySource]) -> CopierMemory:
        """The windows of all sources are read in batches of similar length."""
        device, contents = self.begin.device, [source.content for source in sources]
        whole = [window for content in contents for window in content.windows]
        flat: list[Tensor] = [self.ended[None]]
        starts = torch.zeros(len(whole), dtype=torch.long)  # the row of a window's first token in `flat`
        room = self.batch_tokens if self.compiled or device.type != "cpu" else min(self.batch_tokens, ON_CPU)
        begin = 1
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            for numbers in batches([len(window.ids) for window in whole], room):
                states = self.logits(padded([whole[number] for number in numbers], self.padding, device))
                starts[numbers] = begin + torch.arange(len(numbers)) * states.shape[1]
                begin += states.shape[0] * states.shape[1]
                flat.append(states.flatten(0, 1))
            rows: list[Tensor] = []
            first = 0
            for content in contents:
                window, position = torch.tensor((content.window, content.position), dtype=torch.long)
                rows.append(torch.cat([torch.zeros(1, dtype=torch.long), starts[first + window] + position]))
                first += len(content.windows)
            states = torch.cat(flat)[pad_sequence(rows, batch_first=True).to(device)]
        own = [torch.tensor((NOWHERE, *content.place)) for content in contents]
        places = pad_sequence(own, batch_first=True, padding_value=NOWHERE)
        mask = (places > NOWHERE).to(device)
        mask[:, 0] = True
        return CopierMemory(states, mask, places.to(device))

    def decode(self, memory: CopierMemory, actions: Tensor) -> Decoded:
        rows, steps = actions.shape
        last = actions[:, :-1]
        inputs = memory.states.gather(1, last[..., None].expand(-1, -1, self.width))
        states = torch.cat([self.begin.expand(rows, 1, -1), inputs], 1)
        for layer in self.layers:
            states, _ = layer(states, None, layer.remembered(memory.states), memory.mask)
        nowhere = torch.full((rows, 1), NOWHERE * 2, device=actions.device)
        places = torch.cat([nowhere, memory.places.gather(1, last)], 1)
        used = torch.zeros((rows, steps, memory.mask.shape[1]), dtype=torch.int32, device=actions.device)
        used[:, 1:].scatter_(2, last[..., None], 1)
        return self._pointed(memory, states, places, used.cumsum(1) > 0)

    def _pointed(self, memory: CopierMemory, states: Tensor, places: Tensor, used: Tensor) -> Decoded:
        """`states` (n, steps, d), the `places` of the words copied before them (n, steps), and the slots that were
        `used` by then (n, steps, slots)."""
        states = self.norm(states)
        logits = self.query(states) @ memory.states.transpose(1, 2) / math.sqrt(self.width)
        distance = memory.places[:, None, :] - places[..., None]
        near = torch.where(distance.abs() <= NEAR, distance + NEAR, 2 * NEAR + 1)
        blocked = used | ~memory.mask[:, None, :]
        blocked[..., 0] = False
        return Decoded((logits + self.near[near]).masked_fill(blocked, -torch.inf), states)

    def start(self, memory: CopierMemory) -> CopierState:
        kept = tuple(layer.remembered(memory.states) for layer in self.layers)
        return CopierState((), kept, torch.zeros_like(memory.mask))

    def start_again(self, begun: CopierState, written: Sequence[Sequence[int]]) -> CopierState:
        used = begun.used.clone()
        for row, actions in enumerate(written):
            used[row, list(actions)] = True
        return CopierState((), begun.memory, used)

    def step(self, memory: CopierMemory, state: CopierState, last: Tensor | None) -> tuple[Tensor, CopierState]:
        rows = torch.arange(len(memory.mask), device=memory.mask.device)
        used = state.used
        if last is None:
            states, places = self.begin.expand(len(rows), 1, -1), torch.full((len(rows), 1), NOWHERE * 2).to(rows)
        else:
            states, places = memory.states[rows, last][:, None], memory.places[rows, last][:, None]
            used = used.clone()
            used[rows, last] = True
        own = []
        for number, layer in enumerate(self.layers):
            earlier = state.own[number] if state.own else None
            states, pair = layer(states, earlier, state.memory[number], memory.mask)
            own.append(pair)
        logits = self._pointed(memory, states, places, used[:, None]).logits[:, 0]
        return logits, CopierState(tuple(own), state.memory, used)

    def target(self, source: PolicySource, text: str, runs: Sequence[CopiedRun]) -> list[int]:
        slots = [
            1 + slot
            for run in runs
            for slot, word in enumerate(source.content.runs)
            if word.chunk == _same(source.texts, run.chunk) and run.start < word.end and word.start < run.end
        ]
        whole = list(dict.fromkeys(slots))
        return [*whole, self.end] if whole else []

    def write(self, source: PolicySource, actions: Sequence[int]) -> PolicyOutput:
        words = [source.content.runs[action - 1] for action in actions if action != self.end]
        runs = [run for one in joined(source.texts, words) if (run := trimmed(source.texts, one))]
        return PolicyOutput(rendered(source.texts, runs), tuple(runs))

    def known(self, memory: CopierMemory) -> tuple[Tensor, Tensor]:
        words = memory.mask.clone()
        words[:, 0] = False
        return memory.states, words


def _words(encoding: Encoding) -> list[tuple[int, int, int]]:
    """The first token, the first character and one past the last character of every word."""
    rows: list[tuple[int, int, int]] = []
    last: int | None = None
    for token, (word, (start, stop)) in enumerate(zip(encoding.word_ids, encoding.offsets, strict=True)):
        if word == last and rows:
            rows[-1] = (rows[-1][0], rows[-1][1], stop)
        else:
            rows.append((token, start, stop))
        last = word
    return rows


def _central(own: Sequence[PairWindow], token: int) -> int:
    """The window in which a token is farthest from the ends."""
    return max(
        range(len(own)), key=lambda number: (min(token - own[number].start, own[number].stop - 1 - token), -number)
    )


def _same(texts: Sequence[str], chunk: int) -> int:
    """The first of the texts that is the same as this one; -1 if this one was left out."""
    return texts.index(texts[chunk]) if chunk < len(texts) else -1
