"""The identity of source files: their content, whatever their name or date."""

import json
from pathlib import Path

from storage.parquet import checksum, write_json

_SMALL = 1 << 20
"""Bytes below which a file is read as fast as the record of its checksum; a folder may have 100,000 such files."""


def file_digest(store: Path, path: Path) -> str:
    """Checksum of a file's content; looked up in the store while size, date and inode are those it was taken with."""
    status = path.stat()
    if status.st_size < _SMALL:
        return checksum(path)
    key = f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"
    cache = store / "sources" / f"{status.st_dev}-{status.st_ino}.json"
    if cache.exists():
        known = json.loads(cache.read_text(encoding="utf-8"))
        if known["key"] == key:
            return known["checksum"]
    digest = checksum(path)
    write_json(cache, {"key": key, "path": str(path.resolve()), "checksum": digest})
    return digest
