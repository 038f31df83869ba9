"""Parquet files that are either whole or absent."""

import json
import os
import socket
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP = 4096
"""Rows in a row group: what is read to fetch a few rows of a shard."""


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table at once. The same table gives the same bytes."""
    vectors = [f"{field.name}.list.element" for field in table.schema if pa.types.is_fixed_size_list(field.type)]
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    write_atomically(
        path,
        lambda temporary: pq.write_table(
            table,
            temporary,
            row_group_size=ROW_GROUP,
            # Floats of unit vectors do not compress; texts rarely repeat but compress well.
            compression="none" if vectors else "zstd",
            use_dictionary=[name for name in ("kind",) if name in table.column_names] if vectors else texts,
            write_page_index=True,
        ),
    )


def write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False, default=str)
    write_atomically(path, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Have `write` fill a temporary file, flush it to the disk and only then give it its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    try:
        write(temporary)
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(directory: Path) -> None:
    """Delete the temporary files that killed processes of this machine left in `directory`."""
    for temporary in directory.glob(f".*.{socket.gethostname()}.*.tmp"):
        pid = temporary.name.split(".")[-2]
        if pid.isdigit() and not process_exists(int(pid)):
            temporary.unlink(missing_ok=True)


def process_exists(pid: int) -> bool:
    """Whether a process of this machine has that id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def checksum(path: Path) -> str:
    """128-bit BLAKE2b of a file's bytes, hexadecimal."""
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
