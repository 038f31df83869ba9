"""The identity of source files: their content, whatever their name or date."""

from pathlib import Path
from typing import Any

from vitalfew.storage import files
from vitalfew.storage.files import DamagedRecord


class SourceChanged(ValueError):
    """A source is not what it was a moment ago: the message names it."""


def file_key(path: Path) -> str:
    """What changes with a file's content: size, date and inode. Raises SourceChanged where the file is gone."""
    try:
        status = files.status(path)
    except FileNotFoundError as error:
        raise SourceChanged(f"{path} was removed while it was read") from error
    return f"{status.size}-{status.modified_ns}-{status.inode}"


SMALL = 1 << 20
"""Bytes below which a file is read as fast as the record of its checksum; a folder may have 100,000 such files."""


def file_digest(store: Path, path: Path) -> str:
    """Checksum of a file's content; looked up in the store while size, date and inode are those it was taken with.

    Raises SourceChanged.
    """
    key = file_key(path)
    status = files.status(path)
    cache = store / "sources" / f"{status.device}-{status.inode}.json"
    known = _entry(cache) if status.size >= SMALL else None
    if known and known["key"] == key:
        return known["checksum"]
    digest = files.checksum(path)
    if file_key(path) != key:
        raise SourceChanged(f"{path} was changed while it was read; run again once it is complete")
    if status.size < SMALL:
        return digest
    files.write_json(cache, {"key": key, "path": str(files.absolute(path)), "checksum": digest})
    return digest


def is_stale(cache: Path) -> bool:
    """Whether a remembered checksum is of a file that has been changed or removed since."""
    known = _entry(cache)
    try:
        return known is None or file_key(Path(known["path"])) != known["key"]
    except (SourceChanged, OSError):
        return True


def _entry(cache: Path) -> dict[str, Any] | None:
    try:
        return files.read_record(cache, lambda value: {name: value[name] for name in ("key", "path", "checksum")})
    except (FileNotFoundError, DamagedRecord):
        return None
