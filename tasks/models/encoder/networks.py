"""Two ways to compute a model: by OpenVINO on x86-64 processors, by PyTorch on GPUs and wherever OpenVINO is not.

Both give the states of tokens, reduce them over runs of tokens (a text, a sentence), and apply the layers after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from vitalfew.configs.section import NumberName
from vitalfew.tasks.models.batches import padded_rows
from vitalfew.tasks.models.compiled import Compiled, Engine, compiled

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from vitalfew.tasks.models.encoder.tower import Tower

Vectors = NDArray[np.float32]
Rows = Sequence[Sequence[int]]
"""The token ids of texts."""
Reduction = Literal["sum", "max", "first", "last"]
NUMPY = {"sum": np.add, "max": np.maximum}


@dataclass(frozen=True)
class Computation:
    """How a model is computed; `batch_tokens`: tokens in a batch, at most (padding included)."""

    engine: Engine
    precision: NumberName
    batch_tokens: int

    def identity(self) -> dict[str, Any]:
        """Everything that the vectors depend on: OpenVINO's do not depend on the batch (compiled.py)."""
        about: dict[str, Any] = {"engine": self.engine, "precision": self.precision}
        return about if self.engine == "openvino" else about | {"batch_tokens": self.batch_tokens}


class OnOpenVINO:
    """A checkpoint on this machine's processor."""

    def __init__(self, tower: "Tower", precision: NumberName, layers: "Callable[[], nn.Module]", streams: int) -> None:
        """`layers`: makes those after pooling; `streams`: batches that are computed at once. Raises NotConverted."""
        self.tower, self.precision, self.layers, self.streams = tower, precision, layers, streams
        self.network = self._compiled("states", precision, self._states)

    def _compiled(self, part: str, precision: NumberName, build: Any) -> Compiled:
        return compiled({"part": part, **self.tower.identity()["files"]}, precision, build, self.streams)

    def _states(self) -> "tuple[nn.Module, tuple[Tensor, ...]]":
        import torch

        class States(torch.nn.Module):
            def __init__(self, network: "nn.Module") -> None:
                super().__init__()
                self.network = network

            def forward(self, ids: "Tensor", mask: "Tensor") -> "Tensor":
                return self.network(input_ids=ids, attention_mask=mask).last_hidden_state

        network, _ = self.tower.read_network()
        ids = torch.ones((2, 8), dtype=torch.int64)
        return States(network).eval(), (ids, torch.ones_like(ids))

    @cached_property
    def head(self) -> Compiled | None:
        if not (self.tower.recipe.layers or self.tower.has_projection):
            return None
        width = self.tower.hidden * len(self.tower.recipe.pooling.split("+"))

        def build() -> "tuple[nn.Module, tuple[Tensor, ...]]":
            import torch

            return self.layers(), (torch.ones((2, width)),)

        return self._compiled("head", "fp32", build)

    def states(self, ids: Rows) -> Vectors:
        """The states of all tokens, text after text, without padding: (tokens, hidden)."""
        return self.network(ids)

    def reduced(self, states: Vectors, lengths: Sequence[int], by: Reduction) -> Vectors:
        """A vector for every run of tokens; `lengths`: of the runs, which follow one another. float32 (runs, d)"""
        counts = np.asarray(lengths, np.int64)
        ends = np.cumsum(counts)
        if by == "last":
            return states[ends - 1]
        starts = ends - counts
        return states[starts] if by == "first" else NUMPY[by].reduceat(states, starts, axis=0)

    def finished(self, pooled: Vectors) -> Vectors:
        """The layers after pooling: float32 (n, hidden) → (n, d)."""
        if self.head is None or not len(pooled):
            return pooled
        # One by one, for the same bytes whatever the others are: this is little work.
        return np.concatenate([self.head.rows(row[None]) for row in pooled])


class OnTorch:
    """A checkpoint on a device of PyTorch, with weights and states in one precision and PyTorch's fused attention."""

    def __init__(
        self, tower: "Tower", dtype: "torch.dtype", device: "torch.device", layers: "Callable[[], nn.Module]"
    ) -> None:
        network, _ = tower.read_network()
        self.network = network.eval().to(device, dtype)
        self.head = layers().to(device).eval()
        self.device, self.padding = device, tower.padding

    def states(self, ids: Rows) -> "Tensor":
        import torch

        padded, mask = (rows.to(self.device) for rows in padded_rows(ids, self.padding))
        with torch.inference_mode():
            states: Tensor = self.network(
                input_ids=padded,
                attention_mask=None if mask.all() else mask,  # without a mask, attention has a faster path
            ).last_hidden_state
            return states[mask.bool()].float()

    def reduced(self, states: "Tensor", lengths: Sequence[int], by: Reduction) -> Vectors:
        import torch

        counts = torch.tensor(lengths, device=states.device)
        if by in ("first", "last"):
            found = states[counts.cumsum(0) - (counts if by == "first" else 1)]
        else:
            found = torch.segment_reduce(states, by, lengths=counts)
        return found.cpu().numpy()

    def finished(self, pooled: Vectors) -> Vectors:
        import torch

        with torch.inference_mode():
            return self.head(torch.from_numpy(pooled).to(self.device)).cpu().numpy()
