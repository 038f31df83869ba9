"""Blocks of tokens that do not see one another: all are read after a prefix, and an answer is written from some.

A block is a row of a batch: prefix, block and a tail, padded on the right. No mask is needed: a causal model does not
look to the right, and what padding leaves is never read. Rows that begin with one prefix have it read once. Keys are
kept as the model rotated them, so that every block is at the position after the prefix; those of the chosen blocks
are copied one after another into one cache, which what follows attends to.

That is the block mask of Parallel Context Windows (Ratner et al. 2023, arXiv 2212.10947) and Sparse RAG (Zhu et al.
2024, arXiv 2405.16178, section 3.1), computed without the part that the mask would discard.

The cache has room for all tokens to come (`RoomyLayer`). The library's DynamicCache copies everything at every step,
which makes a long cache look slower than it is; this one is allocated once, and a step writes its token alone. Without
a gap in the cache, attention needs no mask.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PretrainedConfig
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.halving import while_memory_lasts
from vitalfew.tasks.models.causal.sampling import RowSampler, until_end

Pair = tuple[Tensor, Tensor]
"""Keys and values."""


class RoomyLayer(DynamicLayer):
    """One layer: keys and values of (rows, heads, tokens, width), in tensors with `room` tokens."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.filled = room, 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.allocate(len(key_states), key_states[0], value_states[0])

    def allocate(self, rows: int, keys: Tensor, values: Tensor) -> None:
        """Room for rows like these: (heads, any, width)."""
        self.dtype, self.device = keys.dtype, keys.device
        self._all = [like.new_empty((rows, len(like), self.room, like.shape[-1])) for like in (keys, values)]
        self.is_initialized = True

    def hold(self, rows: Sequence[Sequence[Pair]]) -> None:
        """Write the pieces of every row, keys and values (heads, tokens, width), one after another. All rows have the
        same number of tokens."""
        self.allocate(len(rows), *rows[0][0])
        for number, pieces in enumerate(rows):
            self.filled = 0
            for piece in pieces:
                self.put(slice(number, number + 1), self.filled, piece)
                self.filled += piece[0].shape[1]
        self._look()

    def gape(self, rows: int, filled: int, keys: Tensor, values: Tensor) -> None:
        """Hold zeros in the first columns: what attention weighs with nothing must be a number."""
        self.allocate(rows, keys, values)
        for whole in self._all:
            whole[:, :, :filled] = 0
        self.filled = filled

    def put(self, rows: Sequence[int] | slice, start: int, pair: Sequence[Tensor]) -> None:
        """Write keys and values of some rows, ([rows,] heads, tokens, width), from a column on."""
        for whole, states in zip(self._all, pair, strict=True):
            whole[rows, :, start : start + states.shape[-2]] = states

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> Pair:
        """Write after what there is; all keys and all values so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.put(slice(None), self.filled, (key_states, value_states))
        self.filled += key_states.shape[2]
        return self._look()

    def _look(self) -> Pair:
        self.keys, self.values = (whole[:, :, : self.filled] for whole in self._all)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.filled


def roomy_cache(room: int, layers: Sequence[Sequence[Sequence[Pair]]] = ()) -> Cache:
    """Return a cache for `room` tokens. `layers`: for every layer the pieces that the rows begin with; without, the
    cache is empty and gets its layers as they are written."""
    if not layers:
        layer: Any = partial(RoomyLayer, room)
        return Cache(layer_class_to_replicate=layer)
    made: list[Any] = [RoomyLayer(room) for _ in layers]
    for each, rows in zip(made, layers, strict=True):
        each.hold(rows)
    return Cache(layers=made)


def gapped_cache(rows: int, filled: int, room: int, like: Sequence[Pair]) -> Cache:
    """Return a cache whose first `filled` columns hold zeros, over which keys and values are put, with room for more.
    `like`: keys and values of every layer, with the same heads and width."""
    layers: list[Any] = [RoomyLayer(filled + room) for _ in like]
    for layer, (keys, values) in zip(layers, like, strict=True):
        layer.gape(rows, filled, keys[0], values[0])
    return Cache(layers=layers)


MOVING_ROPE = ("dynamic", "longrope")
"""Rotations that follow the length of the input: blocks of different lengths would not fit together."""
WITH_KEYS = ("full_attention", "sliding_attention")


@dataclass(frozen=True, slots=True)
class Row:
    """Token ids: a block after its prefix, and a tail whose keys and values are not kept."""

    prefix: Sequence[int]
    block: Sequence[int]
    tail: Sequence[int] = ()

    @property
    def ids(self) -> list[int]:
        return [*self.prefix, *self.block, *self.tail]


@dataclass(frozen=True, slots=True)
class Read:
    """The result of reading a row. `layers`: keys and values by layer, (heads, tokens of prefix and block, width);
    `logprobs`: float32, of the tokens that were asked for, as the next one after the row (natural logarithm);
    `computed`: tokens, a prefix that several rows share in the first of them alone."""

    layers: Sequence[Pair]
    logprobs: Tensor
    computed: int

    @property
    def tokens(self) -> int:
        return self.layers[0][0].shape[1]


@dataclass(frozen=True, slots=True)
class Continuation:
    """Token ids that were written, with the one that ended them; the logarithm of their probability; the seconds until
    the first of them, and those of all others."""

    ids: list[int]
    logprob: float
    first_seconds: float
    seconds: float


class BlockModel:
    """A causal model in evaluation mode. `batch_tokens`: of rows that are read together, with their padding;
    `ends`: the token ids that end an answer."""

    def __init__(self, model: Any, device: torch.device, batch_tokens: int, ends: set[int]) -> None:
        self.model, self.device, self.batch_tokens, self.ends = model, device, batch_tokens, ends

    @torch.inference_mode()
    def read(self, rows: Sequence[Row], asked: Sequence[int] = ()) -> list[Read]:
        """Every row's keys and values, whatever the order of the rows. Raises torch.OutOfMemoryError for one alone."""
        order = sorted(range(len(rows)), key=lambda row: rows[row].ids)
        done: dict[int, Read] = {}
        for batch in batches([len(rows[row].ids) for row in order], self.batch_tokens):
            some = [order[place] for place in batch]
            done |= zip(
                some, while_memory_lasts(lambda few: self._read(few, asked), [rows[row] for row in some]), strict=True
            )
        return [done[row] for row in range(len(rows))]

    def _read(self, rows: Sequence[Row], asked: Sequence[int]) -> list[Read]:
        cache, shared = self._shared([row.prefix for row in rows])
        ids = [torch.tensor(row.ids[shared:]) for row in rows]
        last = torch.tensor([len(each) - 1 for each in ids], device=self.device)
        tokens = pad_sequence(ids, batch_first=True).to(self.device)
        logits = self._logits(tokens, last, past_key_values=cache, use_cache=True)
        logprobs = logits.log_softmax(-1)[:, list(asked)]
        reads = []
        for number, row in enumerate(rows):
            end = len(row.prefix) + len(row.block)
            layers = [(layer.keys[number, :, :end], layer.values[number, :, :end]) for layer in cache.layers]
            computed = len(ids[number]) + (0 if number else shared)
            reads.append(Read(layers, logprobs[number], computed))
        return reads

    def _shared(self, prefixes: Sequence[Sequence[int]]) -> tuple[Any, int]:
        """Return a cache of the prefix that all rows have, and its length. It is empty where the prefixes differ, and
        for a single row, whose result then depends on no other row."""
        prefix = prefixes[0]
        if len(prefixes) == 1 or not prefix or any(each != prefix for each in prefixes):
            return DynamicCache(), 0
        cache: Any = DynamicCache()
        self.model(input_ids=torch.tensor([prefix], device=self.device), past_key_values=cache, logits_to_keep=1)
        cache.batch_repeat_interleave(len(prefixes))
        return cache, len(prefix)

    def _logits(self, tokens: Tensor, last: Tensor, **inputs: Any) -> Tensor:
        """Return logits, float32 (rows, vocabulary), at one position per row: those of all would take gigabytes."""
        rows = torch.arange(len(tokens), device=self.device)
        head = self.model.get_output_embeddings()
        hook = head.register_forward_pre_hook(lambda _, states: (states[0][rows, last][:, None],))
        try:
            logits: Tensor = self.model(input_ids=tokens, **inputs).logits
        finally:
            hook.remove()
        return logits[:, 0].float()

    @torch.inference_mode()
    def joined(self, sets: Sequence[Sequence[Read]], prefixes: Sequence[int], room: int) -> Cache:
        """Return a cache that holds, for every set, the prefix and then the blocks of its rows. All sets have the same
        number of tokens. `prefixes`: the lengths of their prefixes; `room`: for how many tokens besides."""
        held = prefixes[0] + sum(read.tokens - prefixes[0] for read in sets[0])
        layers = [
            [
                [_cut(reads[0].layers[number], 0, start)] + [_cut(read.layers[number], start) for read in reads]
                for reads, start in zip(sets, prefixes, strict=True)
            ]
            for number in range(len(sets[0][0].layers))
        ]
        return roomy_cache(held + room, layers)

    @torch.inference_mode()
    def write(
        self, cache: Cache, ids: Tensor, positions: Sequence[int], sampler: RowSampler, limit: int
    ) -> list[Continuation]:
        """Continue all rows of a cache by `ids`, int64 (rows, tokens), the first of which is at the row's position,
        and then by at most `limit` tokens that the sampler chooses."""
        began = time.perf_counter()
        place = torch.tensor(positions, device=self.device)[:, None]
        chosen: list[Tensor] = []
        first = 0.0
        open_rows = torch.ones(len(ids), dtype=torch.bool)
        tokens = ids.to(self.device)
        while open_rows.any() and len(chosen) < limit:
            steps = place + torch.arange(tokens.shape[1], device=self.device)
            output = self.model(
                input_ids=tokens, position_ids=steps, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            place = steps[:, -1:] + 1
            tokens = sampler(tokens, output.logits[:, -1].float()).argmax(-1, keepdim=True)
            chosen.append(tokens[:, 0].cpu())
            open_rows &= ~torch.isin(chosen[-1], torch.tensor(sorted(self.ends)))
            first = first or time.perf_counter() - began
        rest = time.perf_counter() - began - first
        written = [until_end(row, self.ends) for row in torch.stack(chosen, 1).tolist()]
        return [Continuation(own, sampler.logprob(number, len(own)), first, rest) for number, own in enumerate(written)]


def _cut(pair: Pair, start: int, end: int | None = None) -> Pair:
    return pair[0][:, start:end], pair[1][:, start:end]


def require_blocks(config: PretrainedConfig, name: str) -> None:
    """Raises EngineUnavailable, with the remedy, for a model whose cache cannot be put together from blocks."""
    if reason := obstacle(config):
        remedy = "use a causal model with rotary positions (Llama, Qwen, SmolLM) or another generator"
        raise EngineUnavailable(f"{name} {reason}; {remedy}")


def obstacle(config: PretrainedConfig) -> str:
    """Return the reason why a model's keys and values of separate blocks cannot be joined; empty if they can."""
    text = config.get_text_config()
    if config.is_encoder_decoder:
        return "is an encoder-decoder: its cache does not hold the text that it reads"
    if getattr(text, "alibi", False) or text.model_type in ("bloom", "mpt"):
        return "uses ALiBi, which takes distances from the cache and ignores positions"
    if moving := set(MOVING_ROPE) & set(_rope_types(text)):
        return f"has rotary positions that depend on the length ({', '.join(moving)}): blocks would not fit together"
    if odd := [kind for kind in getattr(text, "layer_types", None) or () if kind not in WITH_KEYS]:
        return f"has layers of kind {odd[0]}, which keep no keys and values of single tokens"
    return ""


def window(config: PretrainedConfig) -> int | None:
    """Return how many tokens back the model looks; None: all the way."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    slides = "sliding_attention" in kinds if kinds else getattr(text, "use_sliding_window", True)
    return getattr(text, "sliding_window", None) if slides else None


def _rope_types(config: PretrainedConfig) -> list[str]:
    """Some models have several, for different layers."""
    rope = getattr(config, "rope_parameters", None) or {}
    each = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    return [str(kind) for one in each if (kind := one.get("rope_type", one.get("type")))]
