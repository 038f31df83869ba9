"""A cache of keys and values with room for all that is to come.

The library's own (DynamicCache) copies everything at every step, which makes a long cache look slower than it is. This
one is allocated once, and a step writes its own token alone. What is attended to has no gap: attention needs no mask.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

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
        """Write each row's pieces (keys and values, (heads, tokens, width)) behind one another: equally many tokens."""
        self.allocate(len(rows), *rows[0][0])
        for number, pieces in enumerate(rows):
            self.filled = 0
            for piece in pieces:
                end = self.filled + piece[0].shape[1]
                for whole, states in zip(self._all, piece, strict=True):
                    whole[number, :, self.filled : end] = states
                self.filled = end
        self._look()

    def gape(self, rows: int, filled: int, keys: Tensor, values: Tensor) -> None:
        """Hold zeros in the first columns: what attention weighs with nothing must be a number."""
        self.allocate(rows, keys, values)
        for whole in self._all:
            whole[:, :, :filled] = 0
        self.filled = filled

    def put(self, rows: Sequence[int] | slice, start: int, pair: Sequence[Tensor]) -> None:
        """Write keys and values of some rows, (rows, heads, tokens, width), from a column on."""
        for whole, states in zip(self._all, pair, strict=True):
            whole[rows, :, start : start + states.shape[2]] = states

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> Pair:
        """Write behind what there is; all keys and all values so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.filled + key_states.shape[2]
        for whole, states in zip(self._all, (key_states, value_states), strict=True):
            whole[:, :, self.filled : end] = states
        self.filled = end
        return self._look()

    def _look(self) -> Pair:
        self.keys, self.values = (whole[:, :, : self.filled] for whole in self._all)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.filled


def roomy_cache(room: int, layers: Sequence[Sequence[Sequence[Pair]]] = ()) -> Cache:
    """A cache for `room` tokens. `layers`: of each layer, the pieces that each row begins with; without, it is empty
    and gets its layers as they are written."""
    if not layers:
        layer: Any = partial(RoomyLayer, room)
        return Cache(layer_class_to_replicate=layer)
    made: list[Any] = [RoomyLayer(room) for _ in layers]
    for each, rows in zip(made, layers, strict=True):
        each.hold(rows)
    return Cache(layers=made)


def gapped_cache(rows: int, filled: int, room: int, like: Sequence[Pair]) -> Cache:
    """A cache whose first `filled` columns hold zeros, over which keys and values are put, with room for more. `like`:
    of each layer, keys and values of the same heads and width."""
    layers: list[Any] = [RoomyLayer(filled + room) for _ in like]
    for layer, (keys, values) in zip(layers, like, strict=True):
        layer.gape(rows, filled, keys[0], values[0])
    return Cache(layers=layers)
