"""Compressed files: gzip, bzip2, zstd and xz, recognised by their first bytes and decompressed as a stream."""

import io
import lzma
from pathlib import Path
from typing import Any

import pyarrow as pa

from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.reading import open_counted

_PACKERS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
_ARCHIVES = {b"PK\x03\x04": "zip", b"Rar!\x1a\x07": "rar", b"7z\xbc\xaf\x27\x1c": "7z"}
_TAR_PLACE, _TAR = 257, b"ustar"
BUFFER = 256 * 1024
XZ_MEMORY = 256 << 20
"""The most memory, in bytes, that unpacking xz may take: `xz -9` takes 65 MiB, a hostile file says 4 GiB."""


def open_file(path: Path) -> "io.BufferedReader[Any]":
    """Open a stream of a file's content, decompressed if it is packed. Raises InputError for an archive.

    Reading raises InputError if a packed file is cut short or broken.
    """
    try:
        source = open_counted(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. Check its permissions") from error
    start = source.read(8)
    source.seek(0)
    packer = next((name for magic, name in _PACKERS.items() if start.startswith(magic)), None)
    archive = next((name for magic, name in _ARCHIVES.items() if start.startswith(magic)), None)
    opened: io.BufferedReader[Any] = io.BufferedReader(_Unpacked(path, source, packer), BUFFER) if packer else source
    if archive is None and opened.peek(_TAR_PLACE + len(_TAR))[_TAR_PLACE:].startswith(_TAR):
        archive = "tar"
    if archive:
        opened.close()
        raise InputError(f"{path} is a {archive} archive, which can hold several files. Unpack it first")
    return opened


class _Unpacked(io.RawIOBase):
    """The decompressed content of a file, for io.BufferedReader."""

    def __init__(self, path: Path, source: io.BufferedReader, packer: str) -> None:
        self._path, self._source, self._packer, self._at = path, source, packer, 0
        self._stream: Any = (
            _Xz(source) if packer == "xz" else pa.CompressedInputStream(pa.PythonFile(source, "r"), packer)
        )

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._stream.read(len(buffer))
        except (OSError, EOFError, MemoryError, lzma.LZMAError) as error:
            raise InputError(
                f"{self._path} is packed with {self._packer} and cut short or broken after {self._at:,} unpacked "
                f"bytes ({error}). Fetch or write it again"
            ) from error
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._source.close()
        super().close()


class _Xz:
    """The content of an xz file, which may be several streams, in bounded memory; lzma.LZMAFile sets no bound."""

    def __init__(self, source: io.BufferedReader) -> None:
        self._source = source
        self._unpacker = lzma.LZMADecompressor(memlimit=XZ_MEMORY)

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, none at the end. Raises EOFError and lzma.LZMAError."""
        while True:
            packed = b""
            if self._unpacker.eof:
                rest = self._unpacker.unused_data.lstrip(b"\0") or self._source.read(BUFFER).lstrip(b"\0")  # padding
                if not rest:
                    return b""
                self._unpacker, packed = lzma.LZMADecompressor(memlimit=XZ_MEMORY), rest
            elif self._unpacker.needs_input and not (packed := self._source.read(BUFFER)):
                raise EOFError("the file ended before the end of its stream")
            if content := self._unpacker.decompress(packed, size):
                return content

    def close(self) -> None:
        """Nothing of its own is open."""
