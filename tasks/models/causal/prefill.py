"""Prompts that are continued together: a causal model computes what all of them begin with once, and no padding.

All tokens are in one row: those that every prompt begins with (the head of a chat template, an instruction), then the
rest of every prompt. Matrix products, norms and rotations know single tokens; attention alone knows prompts, and
computes those of similar length together. The first answered tokens come from that pass. Then one cache holds a row for
every prompt: the head, the rest, a gap that a mask hides, and the answer, in the same columns of all rows.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as attend
from transformers import DynamicCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.causal.blocks import gapped_cache, obstacle, window
from vitalfew.tasks.models.causal.sampling import RowSampler
from vitalfew.tasks.models.within import within

PACKED = "vitalfew_packed"
"""The attention's name in transformers."""
KINDS = ("llama", "mistral", "qwen2", "qwen3")
"""Models whose attention is the plain one, without biases, sinks or caps."""
TOGETHER = {"cpu": 1024, "cuda": 65_536}
"""Tokens that are attended from at once, with their padding, by device."""
LONG = 1024
"""The head is read again for every prompt with more tokens after it: these prompts then need no mask."""


def continues(model: Any) -> bool:
    """Test if every layer of a model sees all tokens before, at the given positions."""
    config = model.config
    return config.model_type in KINDS and not obstacle(config) and not window(config)


@torch.inference_mode()
def continued(model: Any, ids: Sequence[list[int]], sampler: RowSampler, limit: int, ends: set[int]) -> Tensor:
    """Return the tokens that the sampler chooses after every prompt, int64 (n, at most limit), until all rows end.

    `ids`: at least one token per prompt. The tokens of a row after its end mean nothing.
    """
    prompts = _Prompts(model, ids, limit)
    logits = prompts.read()
    stop = torch.tensor(sorted(ends), device=model.device, dtype=torch.long)
    chosen: list[Tensor] = []
    open_rows = torch.ones(len(ids), dtype=torch.bool, device=model.device)
    while True:
        chosen.append(sampler(torch.empty(0), logits).argmax(-1))
        open_rows &= ~torch.isin(chosen[-1], stop)
        if len(chosen) == limit or not open_rows.any():
            return torch.stack(chosen, 1)
        logits = prompts.step(chosen[-1], len(chosen) - 1)


class _Group:
    """Prompts of similar length. `starts`, `lengths`: of their tokens in the row; `shared`: the tokens before these."""

    def __init__(self, rows: list[int], starts: list[int], lengths: list[int], shared: int, model: Any) -> None:
        self.rows, self.shared, self.longest = rows, shared, max(lengths)
        steps = torch.arange(self.longest)
        ends = torch.tensor(lengths)[:, None]
        places = torch.tensor(starts)[:, None] + steps.minimum(ends - 1)
        self.places = places.to(model.device)
        """int64 (rows, longest); after a prompt's end its last token."""
        self.own = (steps < ends).to(model.device)
        self.whole = bool(self.own.all())
        self.ahead: Tensor | None = None
        """The mask after a head: for the query heads that share a key head one below the other."""
        if shared:
            hidden = torch.full((self.longest, shared + self.longest), torch.finfo(model.dtype).min)
            heads = model.config.num_attention_heads // model.config.num_key_value_heads
            self.ahead = hidden.triu(shared + 1).repeat(heads, 1).to(model.device, model.dtype)

    def of(self, states: Tensor) -> Tensor:
        """(heads, tokens, size) → (rows, longest, heads, size): whole tokens are taken, which lie together."""
        tokens = states.transpose(0, 1).index_select(0, self.places.flatten())
        return tokens.view(*self.places.shape, *tokens.shape[1:])

    def attended(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Inputs (heads, tokens, size) → the states of these prompts' tokens, (tokens of them, heads, size)."""
        asked, keys, values = self.of(query), self.of(key), self.of(value)
        rows, longest, heads, size = asked.shape
        if self.ahead is None:
            asked, keys, values = (each.transpose(1, 2) for each in (asked, keys, values))
            states = attend(asked, keys, values, is_causal=True, scale=scaling, enable_gqa=heads > len(key))
        else:
            sides = [
                torch.cat([side[:, : self.shared].transpose(0, 1).expand(rows, -1, -1, -1), own], 1).transpose(1, 2)
                for side, own in ((key, keys), (value, values))
            ]
            asked = asked.transpose(1, 2).reshape(rows, len(key), -1, size)
            states = attend(asked, sides[0], sides[1], attn_mask=self.ahead, scale=scaling)
        states = states.reshape(rows, heads, longest, -1).transpose(1, 2)
        return states.flatten(0, 1) if self.whole else states[self.own]


class _Prompts:
    """The prompts of one batch, with room for `limit` tokens after them."""

    def __init__(self, model: Any, ids: Sequence[list[int]], limit: int) -> None:
        self.model, self.ids, self.limit = model, ids, limit
        common = shared_tokens(ids)
        self.lengths = [len(row) for row in ids]
        self.width = max(self.lengths)
        self.shared = common if len(ids) > 1 and self.width - common <= LONG else 0
        own = [length - self.shared for length in self.lengths]
        self.groups, start = [], self.shared
        for rows in batches(own, TOGETHER["cpu" if model.device.type == "cpu" else "cuda"]):
            lengths = [own[row] for row in rows]
            starts = list(accumulate(lengths, initial=start))[:-1]
            self.groups.append(_Group(rows, starts, lengths, self.shared, model))
            start += sum(lengths)
        self.order = [row for group in self.groups for row in group.rows]
        self.row: Any = DynamicCache()
        self.gaps: Tensor | None = None

    def read(self) -> Tensor:
        """Return the logits of the first token after every prompt, float32 (n, vocabulary)."""
        parts = [(self.ids[0], 0, self.shared)] + [
            (self.ids[row], self.shared, self.lengths[row]) for row in self.order
        ]
        tokens = [token for row, start, end in parts for token in row[start:end]]
        places = [place for _, start, end in parts for place in range(start, end)]
        last = torch.empty(len(self.ids), dtype=torch.long)
        last[self.order] = torch.tensor([end - start for _, start, end in parts]).cumsum(0)[1:] - 1
        with _packed(self.model, self):
            output = self.model(
                input_ids=torch.tensor([tokens], device=self.model.device),
                position_ids=torch.tensor([places], device=self.model.device),
                past_key_values=self.row if self.limit > 1 else None,
                use_cache=self.limit > 1,
                logits_to_keep=last.to(self.model.device),
            )
        return output.logits[0].float()

    def attended(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Inputs (heads, tokens, size) → (tokens, heads, size)."""
        parts = [group.attended(query, key, value, scaling) for group in self.groups]
        if self.shared:
            head = [states[None, :, : self.shared] for states in (query, key, value)]
            states = attend(head[0], head[1], head[2], is_causal=True, scale=scaling, enable_gqa=len(query) > len(key))
            parts.insert(0, states[0].transpose(0, 1))
        return torch.cat(parts)

    def step(self, tokens: Tensor, written: int) -> Tensor:
        """Logits after the tokens, int64 (n), that stand after `written` others."""
        places = torch.tensor(self.lengths, device=self.model.device)[:, None] + written
        output = self.model(
            input_ids=tokens[:, None],
            position_ids=places,
            past_key_values=self.cache,
            attention_mask=None if self.gaps is None else self.gaps[..., : self.width + written + 1],
            use_cache=True,
        )
        return output.logits[:, -1].float()

    @cached_property
    def cache(self) -> Any:
        """Return a cache with a row for every prompt, from the row of all."""
        cache: Any = gapped_cache(
            len(self.ids), self.width, self.limit, [(each.keys, each.values) for each in self.row.layers]
        )
        for layer, packed in zip(cache.layers, self.row.layers, strict=True):
            sides = packed.keys[0], packed.values[0]
            layer.put(slice(None), 0, [side[None, :, : self.shared] for side in sides])
            for group in self.groups:
                layer.put(group.rows, self.shared, [group.of(side).transpose(1, 2) for side in sides])
        del self.row
        if min(self.lengths) < self.width:
            hidden = torch.zeros(len(self.ids), self.width + self.limit)
            for row, length in zip(hidden, self.lengths, strict=True):
                row[length : self.width] = torch.finfo(self.model.dtype).min
            self.gaps = hidden.to(self.model.device, self.model.dtype)[:, None, None]
        return cache


def shared_tokens(ids: Sequence[list[int]]) -> int:
    """Return how many tokens all rows begin with; at least one token of every row does not count."""
    first, last = min(ids), max(ids)  # in alphabetical order, those that differ first
    limit = min(map(len, ids)) - 1
    return next((place for place in range(limit) if first[place] != last[place]), limit)


_prompts: ContextVar[_Prompts] = ContextVar("prompts")


@contextmanager
def _packed(model: Any, prompts: _Prompts) -> Iterator[None]:
    """Let the model attend within the block as these prompts' row needs it."""
    before = model.config._attn_implementation
    model.set_attn_implementation(PACKED)
    try:
        with within(_prompts, prompts):
            yield
    finally:
        model.set_attn_implementation(before)


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, scaling: float | None = None, **given: Any
) -> tuple[Tensor, None]:
    """query (1, heads, tokens, size), key and value (1, key heads, tokens, size) → (1, tokens, heads, size)."""
    return _prompts.get().attended(query[0], key[0], value[0], scaling)[None], None


ALL_ATTENTION_FUNCTIONS.register(PACKED, _attention)
