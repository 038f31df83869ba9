"""Paths in settings."""

import re
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""How s3://bucket begins, as a text or as a path, which has one slash fewer."""


def absolute_if_directory(name: str) -> str:
    """A directory's absolute path, for a worker may have another working directory; any other name as it is."""
    path = Path(name).expanduser()
    return str(path.absolute()) if path.is_dir() else name


def absolute(path: Path) -> Path:
    """The path from the root, for a worker may have another working directory."""
    return path.expanduser().absolute()


def directory(given: Any) -> Any:
    """A store's place as it was given. Raises ValueError for the address of anything but a directory."""
    if isinstance(given, str | Path) and _ADDRESS.match(str(given)):
        raise ValueError(
            f"{given}: a store is a directory of this machine; object stores cannot be used yet. Mount the bucket and "
            "give its directory (./ in front of the name, where a directory is called like that)"
        )
    return given
