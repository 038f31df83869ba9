"""A folder of text and Markdown files, cut into passages at paragraphs."""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from storage.ids import content_id
from tasks.datasets.base import DatasetOptions, InputError, Passage, Record, Reject
from tasks.datasets.files import FileDataset, RowError, check_source, open_source

FILE_LIMIT = 64 << 20
"""Bytes, unpacked, of the largest file that is read."""
_MARKDOWN = re.compile(r"\.(md|markdown|mdown|mkd)(\.(gz|zst|bz2|xz))?$", re.IGNORECASE)
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_GAP = re.compile(r"\s+")


class FolderOptions(DatasetOptions):
    """Which files are read, and how they are cut."""

    glob: str = Field(
        default="**/*",
        min_length=1,
        description="files to read, by their path in the folder: `*.md`, `docs/**/*.txt`; what starts with a dot is "
        "left out unless a part of the pattern does",
    )
    words: int = Field(
        default=300,
        ge=0,
        description="words of a passage, at most: a file is cut between paragraphs, a longer paragraph between lines, "
        "a longer line between words; 0: a file is one passage",
    )


class _File(NamedTuple):
    """A file of the folder: its path in it, and what it is rejected for."""

    name: str
    fault: Reject | None = None


class Folder(FileDataset):
    """Passages of the text and Markdown files in a folder, in the order of their paths; no questions.

    Files are UTF-8, packed (.gz, .zst, .bz2, .xz) or not. The title of a passage is the file's first Markdown heading,
    or its name; the source_id its path in the folder. Binary files, files in other encodings and symbolic links that
    lead out of the folder are rejected; the offset is the file's number.
    """

    example: ClassVar[str] = "folder:docs?glob=**/*.md&words=200"
    Options: ClassVar[type[DatasetOptions]] = FolderOptions
    options: FolderOptions

    def files(self) -> list[Path]:
        return [self._root / file.name for file in self._files if file.fault is None]

    def identity(self) -> dict[str, Any]:
        return {"names": content_id(*(file.name for file in self._files))}

    def records(self) -> Iterator[tuple[int, Record]]:
        for number, file in enumerate(self._files, start=1):
            if file.fault:
                yield number, file.fault
                continue
            try:
                for passage in self._passages(file.name):
                    yield number, passage
            except RowError as error:
                yield number, error.reject(file.name)

    @cached_property
    def _root(self) -> Path:
        """The folder, links and `..` in its path resolved. Raises InputError where it is none."""
        folder = self.source()
        if not os.path.isdir(folder):
            check_source(folder)
            raise InputError(f"{folder} is a file, and this format reads a folder: name the folder it is in")
        return folder.resolve()

    @cached_property
    def _files(self) -> list[_File]:
        """The files that match, sorted by their paths. Raises InputError where there are none."""
        pattern = self.options.glob.split("/")
        hidden = any(part.startswith(".") for part in pattern)
        found = sorted(name for name in _names(self._root, hidden) if _matches(name.split("/"), pattern))
        if not found:
            raise InputError(f"{self.source()} has no files that match {self.options.glob!r}: see glob=")
        return [_File(name, self._fault(name)) for name in found]

    def _fault(self, name: str) -> Reject | None:
        """Why a file is not read."""
        shown = name.encode(errors="backslashreplace").decode()
        if shown != name:
            return Reject("invalid_unicode", f"{shown}: the name of the file is not UTF-8")
        path = self._root / name
        if not path.is_symlink():
            return None if path.is_file() else Reject("unreadable_file", f"{name} is neither a file nor a folder")
        target = Path(os.path.realpath(path))
        if not target.is_relative_to(self._root):
            return Reject("outside_folder", f"{name} is a symbolic link out of the folder, and is not followed")
        if target.is_dir():
            return Reject("unreadable_file", f"{name} is a link to a folder: its files are read where they are")
        return None if target.is_file() else Reject("unreadable_file", f"{name} is a link that leads to no file")

    def _passages(self, name: str) -> Iterator[Passage]:
        """The passages of a file. Raises RowError."""
        text = _text_of(self._root / name)
        title = (_heading(text) if _MARKDOWN.search(name) else "") or name.rpartition("/")[2].strip()
        for passage in cut(text, self.options.words):
            yield Passage(title, passage, name)


def _names(root: Path, hidden: bool) -> Iterator[str]:
    """The paths, in a folder, of all that is in it and is no folder; links to folders are not followed."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be listed: {error.strerror}. Check its permissions") from error

    for parent, folders, names in os.walk(root, onerror=refuse):
        folders[:] = [name for name in folders if hidden or not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in names + links:
            if hidden or not name.startswith("."):
                yield Path(parent, name).relative_to(root).as_posix()


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Whether a path fits a pattern, part by part; `**` stands for any number of parts."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _text_of(path: Path) -> str:
    """The text of a file. Raises RowError."""
    try:
        with open_source(path) as source:
            content = source.read(FILE_LIMIT + 1)
    except (InputError, OSError) as error:
        raise RowError("unreadable_file", ascii(str(error))[1:-1]) from error
    if len(content) > FILE_LIMIT:
        raise RowError("over_long", f"the file is larger than {FILE_LIMIT:,} bytes: cut it into several")
    if b"\0" in content:
        raise RowError("binary_file", f"a NUL at byte {content.index(0) + 1}")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise RowError("invalid_unicode", f"not UTF-8 at byte {error.start + 1} ({error.reason})") from error
    if not text.strip():
        raise RowError("empty_text", "the file is blank")
    return text


def _heading(text: str) -> str:
    """The first heading of a Markdown text (`# Heading`) that is not in a block of code; "" where it has none."""
    in_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        elif not in_code and (found := _HEADING.match(line)) and found[1].strip():
            return found[1].strip()
    return ""


class _Gap(NamedTuple):
    """White space between two words: how good a place for a cut (2: a blank line, 1: a line's end), and where."""

    rank: int
    words: int
    start: int
    end: int


def cut(text: str, words: int) -> Iterator[str]:
    """Cut a text into passages of at most `words` words, which together hold all its words; 0 leaves it whole.

    A passage ends at the last blank line that keeps it short enough, else at the last line's end, else between two
    words; but it has a quarter of `words` at least, so that a heading stays with what it is the heading of.
    """
    text = text.strip()
    start, before = 0, 0
    gaps: list[_Gap] = []
    for count, found in enumerate(_GAP.finditer(text) if words else (), start=1):
        gaps.append(_Gap(min(found[0].count("\n"), 2), count, found.start(), found.end()))
        if count - before == words:
            best = max(gap for gap in gaps if 4 * (gap.words - before) >= words)
            yield text[start : best.start]
            start, before = best.end, best.words
            gaps = [gap for gap in gaps if gap.words > best.words]
    yield text[start:]
