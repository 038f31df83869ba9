"""Files that their owner alone may read: folders of mode 0700 and files of mode 0600, whatever the umask."""

import os
from pathlib import Path
from typing import IO

from vitalfew.storage.files.directory import DIRECTORY


def make_private_folder(path: Path) -> None:
    """Make a folder, or close an existing one to other users. Raises OSError, as for a folder of another user."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else can read at any moment. Raises NotWritten."""

    def write(temporary: Path) -> None:
        with open_private(temporary) as file:
            file.write(text.encode())

    DIRECTORY.write(path, write)


def open_private(path: Path) -> IO[bytes]:
    """A new or emptied file, for writing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)  # of one that was there
    return os.fdopen(descriptor, "wb")
