"""The base of trainers that compute a network here: where, how exactly, and what it begins with."""

import os
from abc import abstractmethod
from typing import Any

from vitalfew.tasks.models.device import OnDevice, precision_of
from vitalfew.tasks.trainers.base import BatchT, Trainer


class NetworkTrainer(OnDevice, Trainer[BatchT]):
    """A subclass trains one network."""

    def __init__(self, options: Any) -> None:
        Trainer.__init__(self, options)
        OnDevice.__init__(self, options)
        self.precision = precision_of(self.dtype)
        self.threads = options.threads or os.cpu_count() or 1

    @abstractmethod
    def begins_from(self) -> dict[str, Any]:
        """Checksums of the weights that the training starts from."""

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "begins_from": self.begins_from()}
