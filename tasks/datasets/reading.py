"""Files that count what is read of them, so that a look at the start of a source tells how large a part it is."""

import io
from pathlib import Path
from typing import Any


class _Counted(io.FileIO):
    """A file whose bytes are added to a total of the process."""

    total = 0

    def readinto(self, buffer: Any) -> int | None:  # type: ignore[override, unused-ignore]
        read = super().readinto(buffer)
        _Counted.total += read or 0
        return read


def open_counted(path: Path) -> io.BufferedReader:
    """`open(path, "rb")`, counted."""
    return io.BufferedReader(_Counted(path), 1 << 16)


def bytes_read() -> int:
    """Bytes of source files that this process has read so far."""
    return _Counted.total
