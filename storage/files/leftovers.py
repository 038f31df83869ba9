"""Temporary files that killed processes left in a store."""

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from vitalfew.storage.files.processes import is_alive, this_process

_PROCESS = r"(?P<process>\d+(-\w+)?)\.tmp(\.wal)?"
"""The end of a temporary file's name, and of what DuckDB writes beside it."""
_TEMPORARY = re.compile(rf"\..+\.{_PROCESS}")


def temporary_name(path: Path) -> Path:
    """What a file is called while this process writes it: it says which machine and process that is."""
    return path.with_name(f".{path.name}.{socket.gethostname()}.{this_process()}.tmp")


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes of this machine left in a folder."""
    for temporary in folder.glob(".*.tmp*"):
        if is_leftover(temporary):
            temporary.unlink(missing_ok=True)


def is_leftover(path: Path) -> bool:
    """Whether this is a temporary file of a process of this machine that is gone."""
    match = re.fullmatch(rf"\..+\.{re.escape(socket.gethostname())}\.{_PROCESS}", path.name)
    return match is not None and not is_alive(match["process"])


def left_behind(store: Path, silence: timedelta) -> Iterator[tuple[Path, int]]:
    """Temporary files of processes that are gone, with their bytes: of this machine as it says, and whosever they are
    where nothing was written for `silence`."""
    for folder, _, names in os.walk(store):
        for name in filter(_TEMPORARY.fullmatch, names):
            path = Path(folder, name)
            with suppress(FileNotFoundError):
                status = path.lstat()
                silent = time.time() - status.st_mtime > silence.total_seconds()
                if silent or is_leftover(path):
                    yield path, status.st_size
