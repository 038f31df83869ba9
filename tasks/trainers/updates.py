"""Updates of a network's weights, whichever network: AdamW or Adafactor with warm-up, decay and clipped gradients.

Loshchilov & Hutter, 2019 (arXiv 1711.05101); Shazeer & Stern, 2018 (arXiv 1804.04235). The learning rate rises linearly
over the first `WARM_UP` of the training and then falls linearly to 0.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

WARM_UP = 0.05
"""The share of the training during which the learning rate rises."""
WEIGHT_DECAY = 0.01
CLIP = 1.0
"""The maximal norm of the gradient, unless another is given."""

OptimizerName = Literal["adamw", "adafactor"]


class OtherSettings(ValueError):
    """A checkpoint that does not fit the network."""


class Updates:
    """The optimiser of `trained` parameters, by name."""

    def __init__(
        self,
        trained: Mapping[str, nn.Parameter],
        learning_rate: float,
        optimizer: OptimizerName = "adamw",
        clip: float = CLIP,
    ) -> None:
        self.trained, self.peak, self.clip = trained, learning_rate, clip
        self.optimizer: torch.optim.Optimizer
        if optimizer == "adamw":
            self.optimizer = torch.optim.AdamW(trained.values(), learning_rate, weight_decay=WEIGHT_DECAY, fused=True)
        else:
            self.optimizer = torch.optim.Adafactor(trained.values(), learning_rate)

    def descend(self, done: float) -> float:
        """Take one step down the gradients that were added up since the last; `done`: share of the training.

        Returns the learning rate.
        """
        rate = self.peak * min(done / WARM_UP, (1 - done) / (1 - WARM_UP))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        torch.nn.utils.clip_grad_norm_(self.trained.values(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return rate

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters, and their moments under `parameter|moment`."""
        tensors = {name: parameter.detach() for name, parameter in self.trained.items()}
        for name, parameter in self.trained.items():
            tensors |= {f"{name}|{key}": value for key, value in self.optimizer.state[parameter].items()}
        return tensors

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the result of `tensors`, and discard the current moments. Raises OtherSettings."""
        given = {name: tensor.shape for name, tensor in tensors.items() if "|" not in name}
        if given != {name: parameter.shape for name, parameter in self.trained.items()}:
            raise OtherSettings(
                "the checkpoint comes from a training with other settings: it has other weights. Remove the "
                "unfinished artifact of training_steps (`vitalfew store gc`), and train again"
            )
        self.optimizer.state.clear()
        for name, tensor in tensors.items():
            parameter, _, key = name.partition("|")
            if key:
                owner = self.trained[parameter]
                self.optimizer.state[owner][key] = tensor.to(owner.device)
            else:
                self.trained[name].copy_(tensor)
