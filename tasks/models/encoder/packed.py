"""A `Bert` on tokens packed one after another, by oneDNN's fused matrix products: fast on CPUs.

- No padding: texts of one length stand together, and attention takes them as a batch that needs no mask.
- A bias, a GELU and the sum with a residual are computed within the matrix product that they follow.
- Few shapes: oneDNN compiles a kernel for every new number of rows, which takes as long as a third of a batch (on an
  AMX CPU 50 to 90 ms for the four products of a layer). Rows are filled up with zeros to one of few numbers, which cost
  nothing but their share of the products.

A compiler (`torch.compile` with frozen weights and compiled matrix products) was no faster on an AMX CPU: it had 0.83
of the tokens per second of an earlier form of these kernels in the same run, after 36 s of compilation for one shape.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from vitalfew.tasks.models.encoder.bert import Bert, Layer

HALVINGS = 4
"""A batch is filled up to the whole number of tokens in a batch, to a half, … or to a sixteenth of it."""


def packs(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether these kernels run here: on x86, oneDNN has no products in bf16 and fp16 without AVX-512."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return dtype == torch.float32 or bool(
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
        if dtype == torch.bfloat16
        else torch.ops.mkldnn._is_mkldnn_fp16_supported()
    )


class Product(NamedTuple):
    """A dense layer: weights in oneDNN's order, and biases."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, dtype: torch.dtype, *layers: nn.Linear) -> "Product":
        """Join layers with one input: their outputs stand side by side."""
        weight = torch.cat([layer.weight.detach() for layer in layers]).to(dtype).contiguous()
        bias = torch.cat([layer.bias.detach() for layer in layers]).to(dtype)
        return cls(torch.ops.mkldnn._reorder_linear_weight(weight, None), bias)

    def __call__(self, states: Tensor, activation: str = "none") -> Tensor:
        exact = "none"  # GELU by the error function
        return torch.ops.mkldnn._linear_pointwise(states, *self, activation, [], exact)

    def plus(self, states: Tensor, residual: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(states, residual, *self, "add")


class PackedLayer(NamedTuple):
    """A layer of `Bert`; query, key and value are one product."""

    attended: Product
    joined: Product
    wide: Product
    narrow: Product
    norms: tuple[nn.LayerNorm, nn.LayerNorm]

    @classmethod
    def of(cls, layer: Layer, dtype: torch.dtype) -> "PackedLayer":
        return cls(
            Product.of(dtype, layer.query, layer.key, layer.value),
            Product.of(dtype, layer.joined),
            Product.of(dtype, layer.wide),
            Product.of(dtype, layer.narrow),
            (layer.attended, layer.norm),
        )


class PackedBert:
    """`model` with its matrix products in `dtype`, and states between them too; `batch_tokens`: in a full batch;
    `depth`: its first layers alone."""

    def __init__(self, model: Bert, dtype: torch.dtype, batch_tokens: int, depth: int | None = None) -> None:
        self.words, self.types, self.norm, self.dtype = model.words, model.types.weight.detach(), model.norm, dtype
        self.sizes = [batch_tokens >> halving for halving in range(HALVINGS, -1, -1)]
        self.positions = model.positions.weight.detach()
        layers = [layer for layer in model.layers[:depth] if isinstance(layer, Layer)]
        self.layers = [PackedLayer.of(layer, dtype) for layer in layers]
        self.width = layers[0].width

    @torch.inference_mode()
    def __call__(self, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None) -> Tensor:
        """float32 (tokens, d): the states of all tokens, text after text. Texts of one length should be neighbours.

        `types`: of every token, 0 by default.
        """
        lengths = [len(tokens) for tokens in ids]
        tokens = sum(lengths)
        kinds = self.types[0] if types is None else self.types[_flat(types, tokens)]
        states = self._embedded(ids, lengths, kinds, next((size for size in self.sizes if size >= tokens), tokens))
        attended = torch.zeros_like(states)
        for layer in self.layers:
            joint = layer.attended(states)
            for start, count, length in _groups(lengths):
                self._attend(joint[start : start + count * length], attended[start:], count, length)
            states = _normed(layer.joined.plus(attended, states), layer.norms[0])
            states = _normed(layer.narrow.plus(layer.wide(states, "gelu"), states), layer.norms[1])
        return states[:tokens].float()

    def _embedded(self, ids: Sequence[Sequence[int]], lengths: Sequence[int], kinds: Tensor, rows: int) -> Tensor:
        """dtype (rows, d), zeros after the last token. The sums are float32."""
        tokens = sum(lengths)
        words = _flat(ids, tokens)
        places = torch.from_numpy(np.concatenate([np.arange(length) for length in lengths]))
        embedded = self.norm(self.words(words) + (self.positions[places] + kinds))
        states = torch.zeros((rows, embedded.shape[1]), dtype=self.dtype)
        states[:tokens] = embedded
        return states

    def _attend(self, joint: Tensor, attended: Tensor, count: int, length: int) -> None:
        """Attention within `count` texts; `joint` (count * length, 3 d) has query, key and value."""
        query, key, value = joint.view(count, length, 3, -1, self.width).permute(2, 0, 3, 1, 4)
        found = scaled_dot_product_attention(query, key, value).transpose(1, 2)  # (count, length, heads, width)
        attended[: count * length].view(found.shape).copy_(found)


def _flat(rows: Sequence[Sequence[int]], numbers: int) -> Tensor:
    """int64 (numbers,): all rows, one after another."""
    return torch.from_numpy(np.fromiter(chain.from_iterable(rows), np.int64, numbers))


def _groups(lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(first token, texts, tokens of a text) of every run of texts of one length."""
    start = 0
    for length, texts in groupby(lengths):
        count = len(list(texts))
        yield start, count, length
        start += count * length


def _normed(states: Tensor, norm: nn.LayerNorm) -> Tensor:
    """In float32 within, whatever the states are."""
    return layer_norm(states, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
