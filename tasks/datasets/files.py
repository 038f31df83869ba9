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
        """Do nothing: the source is closed by its owner."""


BOM = b"\xef\xbb\xbf"
_WIDE = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""The encodings that a byte order mark tells, as spreadsheets write them; the longer mark comes first."""


class _Recoded(io.RawIOBase):
    """UTF-16 or UTF-32 as UTF-8, for io.BufferedReader; a lone surrogate stays one, which UTF-8 cannot have."""

    def __init__(self, path: Path, source: io.BufferedReader, encoding: str) -> None:
        self._path, self._source, self._held = path, source, b""
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held:
            content = self._source.read(BUFFER)
            try:
                self._held = self._decoder.decode(content, not content).encode("utf-8", "surrogatepass")
            except UnicodeDecodeError as error:
                fault = f"{self._path} is cut short or broken: it begins as {error.encoding} but does not continue so"
                raise InputError(f"{fault} ({error.reason}). Write it again, as UTF-8") from error
            if not content:
                break
        count = min(len(buffer), len(self._held))
        buffer[:count], self._held = self._held[:count], self._held[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


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
    except (OSError, ValueError) as error:
        # A ValueError means that no file system can hold the path (it has a NUL character).
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise InputError(f"{path} does not exist. {_remedy_for_missing(path)}") from error
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
    close = difflib.get_close_matches(path.name, names, n=1)
    if close:
        return f"Did you mean {path.with_name(close[0])}?"
    return f"Check the path; {folder} has no file of a similar name"


def open_source(path: Path) -> BufferedReader:
    """Open a file at its first byte of content, decompressed if it is packed and after any byte order mark, which says
    whether it is UTF-16 or UTF-32: such a text is read as UTF-8.

    Raises InputError, also while reading if a packed file is cut short or broken.
    """
    check_source(path)
    source = open_file(path)
    try:
        start = source.peek(len(BOM))
        if not start:
            raise InputError(f"{path} is empty when unpacked. Fetch or write it again")
        if encoding := next((name for mark, name in _WIDE.items() if source.peek(4).startswith(mark)), None):
            return io.BufferedReader(_Recoded(path, source, encoding), BUFFER)
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
