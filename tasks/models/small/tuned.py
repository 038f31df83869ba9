"""A directory of trained weights, which update an encoder, and a method that computes with it.

A directory holds `ADAPTER`, float16, and `SETTINGS`, which names the encoder that the weights update. The networks are
in tuned_encoder.py: a plan needs the files alone, and gets by without PyTorch, whose import takes seconds.
"""

import json
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tokenizers import Tokenizer

from vitalfew.configs.options import Batching
from vitalfew.storage.files import read_json
from vitalfew.tasks.models.batches import threads
from vitalfew.tasks.models.compiled import engine_of
from vitalfew.tasks.models.device import InBatches, require_device
from vitalfew.tasks.models.encoder.recipe import read_tokenizer
from vitalfew.tasks.models.files import UnsupportedModel, digests, directory_of, minilm_directory
from vitalfew.tasks.models.loading import loading
from vitalfew.tasks.models.weights import shipped

if TYPE_CHECKING:
    from torch import Tensor

ADAPTER, SETTINGS = "adapter.safetensors", "config.json"


def settings_file(base: str, **settings: Any) -> dict[str, bytes]:
    """The settings of a directory of trained weights; `base`: the name of the encoder that they update."""
    return {SETTINGS: f"{json.dumps({'base': base, **settings}, indent=1)}\n".encode()}


def base_directory(base: str) -> Path:
    """The directory of the encoder that the weights update; `base`: "minilm" or a path."""
    return minilm_directory() if base == "minilm" else directory_of(base)


@dataclass(frozen=True, slots=True)
class Weights:
    """A directory of trained weights, with the name and the directory of their encoder."""

    directory: Path
    name: str
    base: Path

    @classmethod
    def at(cls, directory: Path, remedy: str) -> "Weights":
        """Raises FileNotFoundError if a file is missing, UnsupportedModel if the settings name no base."""
        missing = [name for name in (ADAPTER, SETTINGS) if not (directory / name).is_file()]
        if missing:
            raise FileNotFoundError(f"{directory} has no {missing[0]}; {remedy}")
        name = read_json(directory / SETTINGS).get("base")
        if not name:
            raise UnsupportedModel(f"{directory / SETTINGS} does not name its base; {remedy}")
        return cls(directory, name, base_directory(name))

    def tensors(self) -> "dict[str, Tensor]":
        from safetensors.torch import load_file

        return load_file(self.directory / ADAPTER)

    def digests(self) -> dict[str, str]:
        """The checksum of every file that an output depends on."""
        own = digests([self.directory], self.directory)
        base = {f"base/{name}": digest for name, digest in digests([self.base], self.base).items()}
        return {name: own[name] for name in (ADAPTER, SETTINGS)} | base


class TunedMethod(InBatches):
    """A method that computes with a directory of trained weights. The first use of `model` loads it."""

    cpu_tokens: ClassVar[int] = 2048
    workers: int | None = None
    recipe: ClassVar[str]
    """The recipe that trains the weights; those that come with the project have its name."""

    def __init__(self, name: str | None, options: Batching, section: str) -> None:
        """`name`: a directory, or None for the weights that come with the project; `section`: of the settings, for
        messages. Raises FileNotFoundError, UnsupportedModel, with the remedy."""
        self.directory, self.section = directory_of(name) if name else shipped(self.recipe), section
        remedy = (
            f"leave {section}.model out to use the bundled weights, or set it to a directory that `vitalfew train "
            f"{self.recipe} --out` wrote"
        )
        self.weights = Weights.at(self.directory, remedy)
        super().__init__(options)

    @abstractmethod
    def network(self) -> type[Any]:
        """The network's class, a TunedEncoder, which is imported here: it brings PyTorch."""

    def files(self) -> dict[str, str]:
        return self.weights.digests()

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "engine": engine_of(self.device_name, self.precision)}

    @property
    def at_once(self) -> int:
        """Batches to read at once."""
        return 1 if self.uses_gpu else threads()

    @cached_property
    @loading()
    def tokenizer(self) -> Tokenizer:
        import torch  # noqa: F401  # what follows needs it, and its seconds are of loading

        return read_tokenizer(self.weights.base)

    @cached_property
    @loading()
    def model(self) -> Any:
        """A TunedEncoder."""
        import torch

        require_device(self.device, self.dtype, self.section)
        torch.set_num_threads(1)  # parallelism comes from workers
        return self.network().from_weights(self.weights, self.device, self.dtype, self.files())
