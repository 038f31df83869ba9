"""Tensors as files (safetensors), with notes about them. PyTorch is imported by what needs it: it is slow to start."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitalfew.storage.files.checksums import damage_named
from vitalfew.storage.files.places import local
from vitalfew.storage.files.records import DamagedRecord
from vitalfew.storage.files.writing import write_atomically

if TYPE_CHECKING:
    from torch import Tensor

_NOTES = "notes"


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]", notes: Any) -> None:
    """`notes`: as JSON has them. Raises NotWritten."""
    from safetensors.torch import save_file

    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_atomically(path, lambda temporary: save_file(whole, temporary, {_NOTES: json.dumps(notes)}))


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """By name, on the CPU. Raises FileNotFoundError, Damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    with damage_named(path, SafetensorError):
        return load_file(local(path))


def read_notes(path: Path) -> Any:
    """What `write_tensors` was told of them. Raises FileNotFoundError, and DamagedRecord."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(local(path), "pt") as file:
            return json.loads(file.metadata()[_NOTES])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DamagedRecord(f"{path} is damaged: {error}") from error
