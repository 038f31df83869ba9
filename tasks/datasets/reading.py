"""Files that count the bytes read from them, so that a look at a source's start can say what share it covers."""

import io
from pathlib import Path
from typing import Any


class _Counted(io.FileIO):
    """A file that adds the bytes read from it to a total of the process."""

    total = 0

    def readinto(self, buffer: Any) -> int | None:  # type: ignore[override, unused-ignore]
        count = super().readinto(buffer)
        _Counted.total += count or 0
        return count


def open_counted(path: Path) -> io.BufferedReader:
    """Open a file like `open(path, "rb")` and count what is read."""
    return io.BufferedReader(_Counted(path), 1 << 16)


def bytes_read() -> int:
    """Return how many bytes of source files this process has read so far."""
    return _Counted.total
