"""A layer of a small transformer decoder that keeps the keys and values of its earlier steps."""

from torch import Tensor, cat, nn
from torch.nn.functional import scaled_dot_product_attention

HEAD = 32
"""The width of a head."""


class DecoderLayer(nn.Module):
    """Attention to the steps so far, to the memory, and two dense layers, each after a norm and added to its input."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.heads = max(1, width // HEAD)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.asks, self.kept, self.found = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def remembered(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the memory, head by head: every step reads them."""
        key, value = self.kept(memory).chunk(2, -1)
        return self._split(key).contiguous(), self._split(value).contiguous()

    def forward(
        self,
        states: Tensor,
        earlier: tuple[Tensor, Tensor] | None,
        memory: tuple[Tensor, Tensor],
        mask: Tensor,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """`states` (n, steps, d); `earlier`: keys and values of the steps before these; those of all steps are given
        back."""
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
