"""One row times a matrix in bf16 on a CPU, as each token of an answer needs it for every linear layer.

PyTorch hands a linear layer in bf16 to oneDNN, which is made for many rows; its own matrix-vector product is
faster for one (1.2 to 1.4 times for the shapes of SmolLM2, two hyperthreads of a Xeon with AMX).
"""

from typing import Any

import torch
from torch import Tensor, nn


class SingleRow(nn.Linear):
    """A linear layer without bias that multiplies one row by PyTorch's matrix-vector product."""

    def forward(self, input: Tensor) -> Tensor:
        if input.numel() != self.in_features:
            return super().forward(input)
        return torch.mv(self.weight, input.reshape(-1)).reshape(*input.shape[:-1], self.out_features)


def quicker_rows(model: Any) -> Any:
    """The model, whose linear layers without bias are `SingleRow`s where that is faster: in bf16 on a CPU."""
    for module in model.modules():
        if type(module) is nn.Linear and module.bias is None and _gains(module.weight):
            module.__class__ = SingleRow
    return model


def _gains(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.bfloat16
