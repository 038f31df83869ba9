"""Temporary files that killed processes left in a store."""

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")


def temporary_name(path: Path) -> Path:
    """What a file is called while this process writes it: it says which machine and process that is."""
    return path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes of this machine left in a folder."""
    for temporary in folder.glob(".*.tmp"):
        if is_leftover(temporary):
            temporary.unlink(missing_ok=True)


def is_leftover(path: Path) -> bool:
    """Whether this is a temporary file of a process of this machine that is gone."""
    match = re.fullmatch(rf"\..+\.{re.escape(socket.gethostname())}\.(\d+)\.tmp", path.name)
    return match is not None and not process_exists(int(match[1]))


def left_behind(store: Path, silence: timedelta) -> Iterator[tuple[Path, int]]:
    """Temporary files of processes that are gone, with their bytes: of this machine as it says, of others' after
    `silence`."""
    for folder, _, names in os.walk(store):
        for name in filter(_TEMPORARY.fullmatch, names):
            path = Path(folder, name)
            with suppress(FileNotFoundError):
                status = path.lstat()
                foreign = f".{socket.gethostname()}." not in name
                silent = time.time() - status.st_mtime > silence.total_seconds()
                if is_leftover(path) or (foreign and silent):
                    yield path, status.st_size


def process_exists(pid: int) -> bool:
    """Whether a process of this machine has that id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
