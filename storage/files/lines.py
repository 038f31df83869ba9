"""Files that grow by a line: what is appended is on the disk before the call returns, whatever becomes of the process.

A line is JSON and the checksum of it. It begins with the newline that ends the one before, so that a line which a kill
tore in its middle spoils no other. In a bucket, where nothing grows, every line is an object.
"""

import json
import os
import re
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from vitalfew.storage.files.places import exists, is_in_bucket, make_folder, medium, read_bytes, remove
from vitalfew.storage.files.writing import explained, flush

_LINE = re.compile(rb"(.*) ([0-9a-f]{32})", re.DOTALL)


class Lines(NamedTuple):
    """What was appended to a file, in order, without the lines that a kill tore; and how many were changed since."""

    values: list[Any]
    damaged: int


def append_line(path: Path, value: Any) -> None:
    """Append a line and flush it to the disk; several threads and processes may at once. Raises NotWritten."""
    content = json.dumps(value).encode()
    line = b"\n" + content + b" " + _checksum(content)
    if is_in_bucket(path):
        medium(path).append(path, line)
        return
    with explained(path):
        make_folder(path.parent)
        new = not exists(path)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            while line:
                line = line[os.write(file, line) :]
            os.fsync(file)
        finally:
            os.close(file)
        if new:
            flush(path.parent)


def read_lines(path: Path) -> Lines:
    """What `append_line` wrote; nothing where there is no file."""
    try:
        content = medium(path).read_appended(path) if is_in_bucket(path) else read_bytes(path)
    except FileNotFoundError:
        return Lines([], 0)
    whole = [*filter(None, map(_LINE.fullmatch, content.split(b"\n")))]
    good = [match[1] for match in whole if _checksum(match[1]) == match[2]]
    return Lines([json.loads(content) for content in good], len(whole) - len(good))


def remove_lines(path: Path) -> None:
    """Remove such a file; nothing where there is none."""
    if is_in_bucket(path):
        medium(path).remove_tree(path)
    else:
        remove(path)


def _checksum(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).hexdigest().encode()
