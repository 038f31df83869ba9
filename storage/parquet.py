"""Parquet files that are either whole or absent."""

import errno
import json
import os
import re
import shutil
import socket
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP = 4096
"""Rows in a row group: what is read to fetch a few rows of a shard."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class NotWritten(OSError):
    """A file of the store could not be written: the message names it, the cause and the remedy."""


class DamagedRecord(ValueError):
    """A record of the store (JSON) is not as it was written: the message names the file and what is wrong with it."""


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


def read_json(path: Path) -> Any:
    """What `write_json` wrote. Raises FileNotFoundError, and DamagedRecord where the file is no JSON (any more)."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # not UTF-8, or not JSON
        raise DamagedRecord(f"{path} is damaged: {error}") from error


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Have `write` fill a temporary file, flush it to the disk and only then give it its name. Raises NotWritten."""
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        flush(temporary)
        os.replace(temporary, path)
        flush(path.parent)
    except Exception as error:  # FAISS and DuckDB have errors of their own for what the system refuses
        if remedy := _remedy(error, path):
            raise NotWritten(remedy) from error
        raise
    finally:
        if temporary.exists():
            temporary.unlink()


def _remedy(error: Exception, path: Path) -> str | None:
    """What to do about a refusal of the system; None where it is something else."""
    cause = _cause(error)
    if cause is None:
        return None
    told = f"{path} cannot be written: {os.strerror(cause)}."
    if cause in _FULL:
        place = next(parent for parent in path.absolute().parents if parent.exists())
        free = shutil.disk_usage(place).free / 2**20
        return f"{told} {free:,.0f} MiB are free there: make room, then the same command goes on from what is done"
    if cause == errno.EFBIG:
        return f"{told} Raise the limit (ulimit -f), then the same command goes on from what is done"
    return f"{told} A store has to be writable: see to its permissions, or give another --store DIR"


def _cause(error: Exception) -> int | None:
    known = (*_FULL, errno.EFBIG, *_FORBIDDEN)
    if isinstance(error, OSError) and error.errno in known:
        return error.errno
    return next((number for number in known if os.strerror(number) in str(error)), None)


def remove_leftovers(directory: Path) -> None:
    """Delete the temporary files that killed processes of this machine left in `directory`."""
    for temporary in directory.glob(".*.tmp"):
        if is_leftover(temporary):
            temporary.unlink(missing_ok=True)


def is_leftover(path: Path) -> bool:
    """Whether this is a temporary file of a process of this machine that is gone."""
    match = re.fullmatch(rf"\..+\.{re.escape(socket.gethostname())}\.(\d+)\.tmp", path.name)
    return match is not None and not process_exists(int(match[1]))


def process_exists(pid: int) -> bool:
    """Whether a process of this machine has that id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def checksum(path: Path, progress: Callable[[int], Any] = lambda read: None) -> str:
    """128-bit BLAKE2b of a file's bytes, hexadecimal. `progress` is called with how many more bytes are read."""
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            progress(len(block))
    return digest.hexdigest()


def flush(path: Path) -> None:
    """Have the system write a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
