"""Attention for a row whose tokens see only some segments of it: scores that a mask would hide are never computed.

For training on a CPU, where PyTorch's fused attention is slow in bf16 with a backward pass, and a mask over the whole
row costs as much as what it hides. transformers calls it by its name, `SEGMENTED`; models that choose their attention
in the usual way (ALL_ATTENTION_FUNCTIONS) can be run with it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

SEGMENTED = "vitalfew_segmented"

Span = tuple[int, int]
Layout = Sequence[tuple[Span, Sequence[Span]]]
"""Of every segment, in the row's order, its first token and one past its last, and the spans of the segments that it
sees besides itself. Within itself a segment is causal."""

_layout: ContextVar[Layout] = ContextVar("layout")


@contextmanager
def laid_out(layout: Layout) -> Iterator[None]:
    """In this context a forward pass of one row has this layout."""
    token = _layout.set(layout)
    try:
        yield
    finally:
        _layout.reset(token)


def layout_mask(layout: Layout) -> Tensor:
    """bool (tokens, tokens): whether the token of a row sees that of a column."""
    mask = torch.zeros(layout[-1][0][1], layout[-1][0][1], dtype=torch.bool)
    for (start, end), seen in layout:
        for first, last in seen:
            mask[start:end, first:last] = True
        mask[start:end, start:end] = torch.ones(end - start, end - start, dtype=torch.bool).tril()
    return mask


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float | None = None, **given: Any
) -> tuple[Tensor, None]:
    """query (1, heads, tokens, size), key and value (1, key heads, tokens, size) → (1, tokens, heads, size)."""
    groups, size = key.shape[1], query.shape[3]
    scaled = query[0] * (size**-0.5 if scaling is None else scaling)
    heads = scaled.view(groups, -1, *scaled.shape[1:])
    states = [_segment(heads, key[0], value[0], span, seen) for span, seen in _layout.get()]
    return torch.cat(states, 1).transpose(0, 1).contiguous()[None], None


def _segment(heads: Tensor, key: Tensor, value: Tensor, span: Span, seen: Sequence[Span]) -> Tensor:
    """The states of one segment (heads, tokens, size). `heads`: (key heads, heads of each, tokens, size)."""
    spans = [*seen, span]
    keys, values = (torch.cat([part[:, start:end] for start, end in spans], 1) for part in (key, value))
    asked = heads[:, :, span[0] : span[1]]
    groups, shared, length, size = asked.shape
    scores = (asked.reshape(groups, shared * length, size) @ keys.transpose(1, 2)).view(groups, shared, length, -1)
    ahead = torch.ones(length, scores.shape[3], dtype=torch.bool).triu(scores.shape[3] - length + 1)
    weights = scores.masked_fill(ahead, float("-inf")).softmax(-1)
    return (weights.view(groups, shared * length, -1) @ values).view(groups * shared, length, size)


def register() -> None:
    """Make it known to transformers."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(SEGMENTED, attention)
