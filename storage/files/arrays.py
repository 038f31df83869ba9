"""Arrays as files: `.npy` for one, `.npz` for several by name; and tensors (safetensors). Nothing is pickled."""

import json
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalfew.storage.files.checksums import damage_named
from vitalfew.storage.files.places import medium
from vitalfew.storage.files.records import DamagedRecord

if TYPE_CHECKING:
    from torch import Tensor

_LONGEST_HEADER = 10 + 0xFFFF
"""Bytes of an array's header in version 1.0 of the format, which says the length of its text in two bytes."""


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Raises NotWritten."""
    _write(path, lambda file: np.save(file, array, allow_pickle=False))


def _write(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Have `write` fill the file. NumPy gets it opened: to a name without `.npy` it would add that."""

    def fill(temporary: Path) -> None:
        with temporary.open("wb") as file:
            write(file)

    medium(path).write(path, fill)


def write_rows(path: Path, shape: tuple[int, int], batches: Iterable[NDArray[np.float32]]) -> None:
    """Write float32 (rows, width) batch by batch, of which one is in memory. Raises NotWritten, and ValueError where
    they are not as many rows."""

    def write(file: IO[bytes]) -> None:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        start = file.tell()
        for batch in batches:
            file.write(np.ascontiguousarray(batch, "<f4").data)
        if file.tell() - start != 4 * shape[0] * shape[1]:
            raise ValueError(f"{path.name}: got {file.tell() - start} bytes for {shape[0]} rows of {shape[1]} numbers")

    _write(path, write)


def read_array(path: Path) -> NDArray[Any]:
    """Raises FileNotFoundError, and Damaged where its form is not as it was written: changed numbers are not seen."""
    # NumPy raises anything for bytes that it does not understand: a header is a Python literal, an `.npz` a zip file.
    with damage_named(path, Exception), medium(path).local(path).open("rb") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def map_array(path: Path) -> NDArray[Any]:
    """An array that is read-only, and read from the disk as it is touched. Raises as `read_array` does.

    Arrow maps it and closes the file: a map by NumPy keeps a descriptor, of which a process has few.
    """
    with damage_named(path, Exception):
        with pa.memory_map(str(medium(path).local(path))) as file:
            content = file.read_buffer()
        head = BytesIO(content[:_LONGEST_HEADER])
        np.lib.format.read_magic(head)
        shape, by_column, kind = np.lib.format.read_array_header_1_0(head)
        return np.ndarray(shape, kind, content, head.tell(), order="F" if by_column else "C")


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raises NotWritten."""
    _write(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Raises FileNotFoundError, and Damaged where a byte of it is not as it was written."""
    with damage_named(path, Exception), np.load(medium(path).local(path), allow_pickle=False) as arrays:
        return dict(arrays)


_NOTES = "notes"


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]", notes: Any) -> None:
    """`notes`: a value of JSON. Raises NotWritten."""
    from safetensors.torch import save_file

    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    medium(path).write(path, lambda temporary: save_file(whole, temporary, {_NOTES: json.dumps(notes)}))


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """By name, on the CPU. Raises FileNotFoundError, Damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    with damage_named(path, SafetensorError):
        return load_file(medium(path).local(path))


def read_notes(path: Path) -> Any:
    """Read the notes that `write_tensors` was given. Raises FileNotFoundError, and DamagedRecord."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(medium(path).local(path), "pt") as file:
            return json.loads(file.metadata()[_NOTES])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DamagedRecord(f"{path} is damaged: {error}") from error
