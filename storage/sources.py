"""The identity of source files: their content, whatever their name or date."""

from pathlib import Path

from vitalfew.storage import files


class SourceChanged(ValueError):
    """A source is not what it was a moment ago: the message names it."""


def file_key(path: Path) -> str:
    """A text that changes with a file's content: size, inode, date, and the date of change, which nobody can set back.

    Raises SourceChanged where the file is gone."""
    try:
        return "-".join(map(str, files.status(path)))
    except FileNotFoundError as error:
        raise SourceChanged(f"{path} was removed while it was read") from error


SMALL = 1 << 20
"""Bytes below which a file is read as fast as what is remembered of it; a folder may have 100,000 such files."""


def file_digest(path: Path) -> str:
    """Checksum of a file's content. This machine remembers that of a large one while it is the same file
    (storage/files/checksums.py). Raises SourceChanged."""
    key = file_key(path)
    read = files.checksum if files.status(path).size < SMALL else files.remembered_checksum
    digest = read(path)
    if file_key(path) != key:
        raise SourceChanged(f"{path} was changed while it was read; run again once it is complete")
    return digest
