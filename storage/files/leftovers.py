"""Temporary files that killed processes left in a store."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from vitalfew.storage.files.processes import NAME, has_ended, this_process

_ENDING = r"\.tmp(\.wal)?"
"""The latter is what DuckDB writes beside a file."""
_TEMPORARY = re.compile(rf"\..+\.({NAME}|\d+(-\w+)?){_ENDING}")
"""The last part before the ending is the process that writes it; older versions wrote its id and start alone."""


def temporary_name(path: Path) -> Path:
    """Name for a file while this process writes it: it names the process."""
    return path.with_name(f".{path.name}.{this_process()}.tmp")


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files in a folder whose processes are known to have ended."""
    for temporary in folder.glob(".*.tmp*"):
        if is_leftover(temporary):
            temporary.unlink(missing_ok=True)


def is_leftover(path: Path) -> bool:
    """Return true for a temporary file, or folder, of a process that is known to have ended."""
    match = re.fullmatch(rf"\..+\.(?P<process>{NAME}){_ENDING}", path.name)
    return match is not None and has_ended(match["process"])


def left_behind(store: Path, silence: timedelta) -> Iterator[tuple[Path, int]]:
    """Temporary files of processes that are known to have ended, with their bytes, and of any process where nothing was
    written for `silence`."""
    for folder, _, names in os.walk(store):
        for name in filter(_TEMPORARY.fullmatch, names):
            path = Path(folder, name)
            with suppress(FileNotFoundError):
                status = path.lstat()
                silent = time.time() - status.st_mtime > silence.total_seconds()
                if silent or is_leftover(path):
                    yield path, status.st_size
