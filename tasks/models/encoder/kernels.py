"""How a model is computed, of which there are four ways. They differ in speed, by the machine, and little in result.

| kernels | what is computed how | where |
|---|---|---|
| `packed` | no padding, fused matrix products (packed.py) | a BERT or RoBERTa on a CPU with oneDNN |
| `half` | weights and states in bf16 or fp16, PyTorch's fused attention | any model, anywhere |
| `autocast` | matrix products in bf16 or fp16, all else float32 | any model, anywhere |
| `plain` | all in float32 | any model, anywhere |

tasks/models/encoder/calibration.py measures which is the fastest of those that give float32's vectors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitalfew.configs.section import DtypeName, KernelName
from vitalfew.tasks.models.batches import padded_rows
from vitalfew.tasks.models.device import dtype_of
from vitalfew.tasks.models.encoder.bert import Bert
from vitalfew.tasks.models.encoder.checkpoint import Checkpoint
from vitalfew.tasks.models.encoder.packed import PackedBert, packs
from vitalfew.tasks.models.files import UnsupportedModel

Kernels = Callable[[Sequence[Sequence[int]]], Tensor]
"""Token ids of some texts → float32 (tokens, hidden): the states of all tokens, text after text."""


@dataclass(frozen=True)
class Computation:
    """As an encoder's settings name it; `batch_tokens`: tokens in a batch, at most (padding included)."""

    kernels: KernelName
    precision: DtypeName
    batch_tokens: int

    @property
    def dtype(self) -> torch.dtype:
        return dtype_of(self.precision)

    def __str__(self) -> str:
        return f"{self.kernels} kernels in {self.precision}, {self.batch_tokens:,} tokens a batch"


class Padded:
    """A network that takes rows of one length; padding is on the right, and no state of it is returned."""

    def __init__(self, network: nn.Module, device: torch.device, autocast: torch.dtype | None, padding: int) -> None:
        self.network, self.device, self.autocast, self.padding = network, device, autocast, padding

    def __call__(self, ids: Sequence[Sequence[int]]) -> Tensor:
        padded, mask = (rows.to(self.device) for rows in padded_rows(ids, self.padding))
        with torch.inference_mode(), torch.autocast(self.device.type, self.autocast, self.autocast is not None):
            states = self.network(
                input_ids=padded,
                attention_mask=None if mask.all() else mask,  # without a mask, attention has a faster path
            ).last_hidden_state
            return states[mask.bool()].float()


def can_pack(checkpoint: Checkpoint, device: torch.device, precision: DtypeName) -> bool:
    """Return whether the kernels `packed` can compute this model here."""
    return packs(device, dtype_of(precision)) and checkpoint.is_plain_bert


def load(checkpoint: Checkpoint, device: torch.device, computation: Computation) -> tuple[Kernels, list[nn.Module]]:
    """The kernels with the weights, and the projection after pooling if the model has one (float32)."""
    dtype, kernels = computation.dtype, computation.kernels
    # Autocast and PyTorch's fused attention do not go together on CPUs: slower by a tenth of a whole pass.
    eager = kernels == "autocast" and device.type == "cpu"
    network, projection = checkpoint.read_network("eager" if eager else "sdpa")
    network.eval()
    if kernels == "packed":
        if not isinstance(network, Bert):
            raise UnsupportedModel(f"{checkpoint.folder}: kernels=packed supports only a plain BERT")
        return PackedBert(network, dtype, computation.batch_tokens), projection
    if kernels == "half":
        network.to(dtype)
    if kernels == "autocast":  # which would convert the weights at every use
        for module in network.modules():
            if isinstance(module, nn.Linear):
                module.to(dtype)
    autocast = dtype if kernels == "autocast" else None
    return Padded(network.to(device), device, autocast, checkpoint.padding), projection
