"""`oreo_sft`: Oreo's supervised fine-tuning: the evidence text from the question and its chunks.

Negative log-likelihood of the gold context (arXiv 2502.13019, equation 1), the mean over the actions of a step.
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from vitalfew.tasks.trainers.oreo.training import Material, OreoOptions, OreoTrainer


class OreoSft(OreoTrainer):
    """Oreo's first training: a policy learns to write the evidence texts that were collected."""

    class Options(OreoOptions, extra="forbid"):
        epochs: int = Field(3, ge=1, description="Passes over the questions.")
        layers: int | None = Field(
            None,
            ge=0,
            description="How many of the copier's encoder layers to train, counted from the last; default: all.",
        )
        learning_rate: float = Field(5e-4, gt=0, description="Peak learning rate, after a linear rise; it then falls.")

    version: ClassVar[str] = "4"

    def prepare(self) -> None:
        if self.options.layers is not None:
            self.model.learn_last(self.options.layers)
        super().prepare()

    def part_losses(
        self, part: Sequence[Material], parts: Sequence[Sequence[Material]]
    ) -> tuple[Tensor, dict[str, float], tuple[()]]:
        actions = sum(len(target) for each in parts for _, _, target in each)
        memory = self.model.encode([source for _, source, _ in part])
        logprobs, _, _ = self.model.log_probabilities(memory, [target for _, _, target in part])
        return -logprobs.sum() / actions, {}, ()
