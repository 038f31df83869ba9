"""Damage that neither size nor date tell of."""

import os
from pathlib import Path


def flip(path: Path) -> None:
    """Another bit in the middle of a file, and the same size and date."""
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
