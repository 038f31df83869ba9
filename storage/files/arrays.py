"""Arrays as files: `.npy` for one, `.npz` for several by name. Nothing is pickled."""

from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalfew.storage.files.checksums import damage_named
from vitalfew.storage.files.places import local
from vitalfew.storage.files.writing import write_atomically

_UNREADABLE = (Exception,)
"""What NumPy raises for bytes that it does not understand: a header is a Python literal, and an `.npz` a zip file."""


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Raises NotWritten."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, array, allow_pickle=False)

    write_atomically(path, write)


def write_rows(path: Path, shape: tuple[int, int], batches: Iterable[NDArray[np.float32]]) -> None:
    """Write float32 (rows, width) batch by batch, of which one is in memory. Raises NotWritten, and ValueError where
    they are not as many rows."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            start = file.tell()
            for batch in batches:
                file.write(np.ascontiguousarray(batch, "<f4").data)
            if file.tell() - start != 4 * shape[0] * shape[1]:
                raise ValueError(
                    f"{path.name}: got {file.tell() - start} bytes for {shape[0]} rows of {shape[1]} numbers"
                )

    write_atomically(path, write)


def read_array(path: Path) -> NDArray[Any]:
    """Raises FileNotFoundError, and Damaged where its form is not as it was written: of its numbers it says nothing."""
    with damage_named(path, *_UNREADABLE):
        return np.load(local(path), allow_pickle=False)


_LONGEST_HEADER = 10 + 0xFFFF
"""Bytes of an array's header in version 1.0 of the format, which says the length of its text in two bytes."""


def map_array(path: Path) -> NDArray[Any]:
    """An array that is read-only, and read from the disk as it is touched. Raises as `read_array` does.

    It is mapped by Arrow, which closes the file: NumPy's own map keeps a descriptor, of which a process has few.
    """
    with damage_named(path, *_UNREADABLE):
        with pa.memory_map(str(local(path))) as file:
            content = file.read_buffer()
        header = BytesIO(content[:_LONGEST_HEADER])
        np.lib.format.read_magic(header)
        shape, by_column, kind = np.lib.format.read_array_header_1_0(header)
        return np.ndarray(shape, kind, content, header.tell(), order="F" if by_column else "C")


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raises NotWritten."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_atomically(path, write)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Raises FileNotFoundError, and Damaged where a byte of it is not as it was written."""
    with damage_named(path, *_UNREADABLE), np.load(local(path), allow_pickle=False) as arrays:
        return dict(arrays)
