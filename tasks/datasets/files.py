"""Opening a source: its first bytes show how it is packed, and the bytes read are counted.

gzip, bzip2, zstd and xz are decompressed as a stream. The bytes read are counted so that a look at a source's start can
say what share of the source it covers. A fault of the file (missing, empty, broken) raises `InputError`, because
nothing after it can be trusted.
"""

import codecs
import difflib
import io
import lzma
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from vitalfew.tasks.datasets.base import Dataset, InputError


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


@contextmanager
def uncounted() -> Iterator[None]:
    """For what is looked at here and read again later."""
    before = _Counted.total
    yield
    _Counted.total = before


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
        source: io.BufferedReader[Any] = open_counted(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. Check its permissions") from error
    start = source.peek(8)
    if packer := next((name for magic, name in _PACKERS.items() if start.startswith(magic)), None):
        source = io.BufferedReader(_Stream(source, _unpacked(path, source, packer)), BUFFER)
    archive = next((name for magic, name in _ARCHIVES.items() if start.startswith(magic)), None)
    if archive is None and source.peek(_TAR_PLACE + len(_TAR))[_TAR_PLACE:].startswith(_TAR):
        archive = "tar"
    if archive:
        source.close()
        raise InputError(f"{path} is a {archive} archive, which can hold several files. Unpack it first")
    return source


class _Stream(io.RawIOBase):
    """Pieces of bytes that are made from a source, for io.BufferedReader; the source is closed with it."""

    def __init__(self, source: io.BufferedReader, pieces: Iterator[bytes]) -> None:
        self._source, self._pieces, self._held, self._at = source, pieces, b"", 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        while not self._held:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._held = piece
        count = min(len(buffer), len(self._held))
        buffer[:count], self._held = self._held[:count], self._held[count:]
        self._at += count
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


def _unpacked(path: Path, source: io.BufferedReader, packer: str) -> Iterator[bytes]:
    """Yield the decompressed content of a file. Raises InputError."""
    done = 0
    try:
        for piece in _of_xz(source) if packer == "xz" else _of_arrow(source, packer):
            done += len(piece)
            yield piece
    except (OSError, EOFError, MemoryError, lzma.LZMAError) as error:
        raise InputError(
            f"{path} is packed with {packer} and cut short or broken after {done:,} unpacked bytes ({error}). Fetch or "
            "write it again"
        ) from error


def _of_arrow(source: io.BufferedReader, packer: str) -> Iterator[bytes]:
    with pa.CompressedInputStream(pa.PythonFile(source, "r"), packer) as stream:
        while content := stream.read(BUFFER):
            yield content


def _of_xz(source: io.BufferedReader) -> Iterator[bytes]:
    """Yield the content of an xz file, which may be several streams, in bounded memory; lzma.LZMAFile sets no bound."""
    unpacker = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
    while True:
        packed = b""
        if unpacker.eof:
            packed = unpacker.unused_data.lstrip(b"\0") or source.read(BUFFER).lstrip(b"\0")  # padding
            if not packed:
                return
            unpacker = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
        elif unpacker.needs_input and not (packed := source.read(BUFFER)):
            raise EOFError("the file ended before the end of its stream")
        yield unpacker.decompress(packed, BUFFER)


BOM = b"\xef\xbb\xbf"
_WIDE = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""The encodings that a byte order mark tells, as spreadsheets write them; the longer mark comes first."""


def _recoded(path: Path, source: io.BufferedReader, encoding: str) -> Iterator[bytes]:
    """Yield UTF-16 or UTF-32 as UTF-8; a lone surrogate stays one, which UTF-8 cannot have. Raises InputError."""
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
    content = b"."
    while content:
        content = source.read(BUFFER)
        try:
            yield decoder.decode(content, not content).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            fault = f"{path} is cut short or broken: it begins as {error.encoding} but does not continue so"
            raise InputError(f"{fault} ({error.reason}). Write it again, as UTF-8") from error


def open_source(path: Path) -> BufferedReader:
    """Open a file at its first byte of content, decompressed if it is packed and after any byte order mark, which says
    whether it is UTF-16 or UTF-32: such a text is read as UTF-8.

    Raises InputError, also while reading if a packed file is cut short or broken.
    """
    check_source(path)
    source = open_file(path)
    try:
        start = source.peek(4)
        if not start:
            raise InputError(f"{path} is empty when unpacked. Fetch or write it again")
        if encoding := next((name for mark, name in _WIDE.items() if start.startswith(mark)), None):
            return io.BufferedReader(_Stream(source, _recoded(path, source, encoding)), BUFFER)
        source.read(len(BOM) if start.startswith(BOM) else 0)
    except BaseException:
        source.close()
        raise
    return source


def bounded_lines(source: BufferedReader, limit: int) -> Iterator[bytes | None]:
    """Yield the lines of a file; None for a line of `limit` bytes or more, which is skipped without being held."""
    while line := source.readline(limit):
        if len(line) < limit or line.endswith(b"\n"):
            yield line
            continue
        while (rest := source.readline(limit)) and not rest.endswith(b"\n"):
            pass
        yield None


class FileDataset(Dataset):
    """A dataset that is one file."""

    def source(self) -> Path:
        """Return the path that was given. Raises InputError if there is none."""
        if self.path is None:
            raise InputError(f"this format reads a file: write its path after the colon, as in {self.example}")
        return self.path

    def files(self) -> list[Path]:
        check_source(self.source())
        return [self.source()]


def check_source(path: Path) -> None:
    """Check that `path` is a file and not empty. Raises InputError."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path} does not exist. {_remedy_for_missing(path)}") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL character, which no path can have
        raise InputError(f"{path} cannot be reached: {error}. Check the path and its permissions") from error
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{path} is a directory, and this format reads one file: name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(
            f"{path} is not a regular file: write its content to a file first, because it is read more than once"
        )
    if status.st_size == 0:
        raise InputError(f"{path} is empty (0 bytes). Fetch or write it again")


def _remedy_for_missing(path: Path) -> str:
    """Name the file with the most similar name, or the deepest folder of the path that exists."""
    folder = path.absolute().parent
    if not folder.is_dir():
        existing = next(parent for parent in folder.parents if parent.is_dir())
        return f"Check the path: {folder} is not a folder, but {existing} is"
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, 10_000)]
    except OSError:
        return f"Check the path; {folder} cannot be listed"
    if close := difflib.get_close_matches(path.name, names, n=1):
        return f"Did you mean {path.with_name(close[0])}?"
    return f"Check the path; {folder} has no file of a similar name"
