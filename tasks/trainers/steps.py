"""Steps of training, whatever is learnt: batches of windows, the optimiser and its checkpoint."""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from storage.files import write_atomically
from tasks.models.batches import batches
from tasks.models.tuned import TunedEncoder
from tasks.models.windows import QUESTION, Batch, Window, padded, special

WARM_UP = 0.05
"""Share of the training in which the learning rate rises."""
WEIGHT_DECAY = 0.01
CLIP = 1.0
"""Norm of the gradient, at most."""
MASKED = 0.1
"""Share of the question's tokens that are masked, so that no single one is relied on."""


class Row(Protocol):
    """A window and what is to be learnt from it."""

    @property
    def window(self) -> Window: ...


RowT = TypeVar("RowT", bound=Row)
ModelT = TypeVar("ModelT", bound=TunedEncoder)


def shuffled_batches(rows: Sequence[RowT], budget: int, draw: random.Random) -> list[list[RowT]]:
    """Rows of like length together, else in random order."""
    mixed = draw.sample(rows, len(rows))
    made = [[mixed[row] for row in batch] for batch in batches([len(row.window.ids) for row in mixed], budget)]
    draw.shuffle(made)
    return made


class Learner(ABC, Generic[ModelT, RowT]):
    """A model in training: one optimiser step per batch, the same for the same seed."""

    def __init__(self, model: ModelT, tokenizer: Tokenizer, learning_rate: float, seed: int) -> None:
        self.model, self.seed, self.peak = model, seed, learning_rate
        self.padding, self.mask = special(tokenizer, "[PAD]"), special(tokenizer, "[MASK]")
        self.trained = model.trained()
        self.optimizer = torch.optim.AdamW(self.trained.values(), learning_rate, weight_decay=WEIGHT_DECAY, fused=True)
        self.device = next(model.parameters()).device

    def step(self, rows: Sequence[RowT], rows_per_step: float, progress: float, number: int) -> float:
        """Learn from one batch. Returns the loss per row.

        `rows_per_step`: of a mean batch: every row counts alike, however many are in its batch. `progress`: share of
        the training that is done; `number`: of the step, which the random numbers follow from.
        """
        torch.manual_seed(self.seed * 1_000_003 + number)
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * min(progress / WARM_UP, (1 - progress) / (1 - WARM_UP))
        self.model.train()
        loss = self.loss(rows, self._batch(rows))
        (loss / rows_per_step).backward()
        torch.nn.utils.clip_grad_norm_(self.trained.values(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item() / len(rows)

    @abstractmethod
    def loss(self, rows: Sequence[RowT], batch: Batch) -> Tensor:
        """Summed over the rows; `batch`: their windows."""

    def _batch(self, rows: Sequence[RowT]) -> Batch:
        """The rows' windows with some of the questions' tokens masked."""
        batch = padded([row.window for row in rows], self.padding, self.device)
        question = (batch.types == QUESTION) & (batch.mask == 1)
        hidden = question & (torch.rand(batch.ids.shape, device=self.device) < MASKED)
        hidden[:, 0] = False  # [CLS]
        batch.ids.masked_fill_(hidden, self.mask)
        return batch

    def save(self, path: Path, notes: dict[str, str]) -> None:
        """Everything that the next step depends on, and `notes`."""
        tensors = {name: parameter.detach() for name, parameter in self.trained.items()}
        for name, parameter in self.trained.items():
            tensors |= {f"{name}|{key}": value for key, value in self.optimizer.state[parameter].items()}
        write_atomically(path, lambda temporary: save_file(tensors, temporary, notes))

    @torch.no_grad()
    def restore(self, path: Path) -> None:
        with safe_open(path, "pt", device=str(self.device)) as file:
            for name in file.keys():  # noqa: SIM118 (it is no mapping)
                parameter, _, key = name.partition("|")
                if key:
                    self.optimizer.state[self.trained[parameter]][key] = file.get_tensor(name)
                else:
                    self.trained[name].copy_(file.get_tensor(name))
