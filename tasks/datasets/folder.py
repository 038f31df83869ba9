"""A folder of documents, cut into passages at headings and paragraphs."""

import json
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from vitalfew.storage.ids import content_id
from vitalfew.tasks.datasets.base import DatasetOptions, InputError, Passage, Record, Reject
from vitalfew.tasks.datasets.documents.blocks import parts
from vitalfew.tasks.datasets.documents.readers import ending, is_binary, missing, read_document
from vitalfew.tasks.datasets.files import FileDataset, check_source, open_counted, open_source
from vitalfew.tasks.datasets.rows import RowError

FILE_LIMIT = 64 << 20
"""The largest file that is read, in unpacked bytes."""


class FolderOptions(DatasetOptions):
    """Which files to read, and how to cut them."""

    glob: str = Field(
        default="**/*",
        min_length=1,
        description="files to read, by their path in the folder: `*.md`, `docs/**/*.txt`; names that start with a dot "
        "are left out unless a part of the pattern starts with one",
    )
    words: int = Field(
        default=300,
        ge=0,
        description="most words in a passage: a text is cut between paragraphs, a longer paragraph between lines, "
        "a longer line between words; 0: the text below a heading is one passage",
    )


class _File(NamedTuple):
    """A file of the folder: its path in the folder, and the reason it is rejected, if it is."""

    name: str
    fault: Reject | None = None


class Folder(FileDataset):
    """Passages of the documents in a folder, in the order of their paths; no questions.

    Markdown and text are read, and with `pip install 'vitalfew[documents]'` HTML, reStructuredText, PDF, DOCX and
    notebooks. Documents are cut at headings: a passage's title is the path of headings above it ("Travel rules ›
    Abroad"), below the title in the front matter, the heading of all others, or the file's name. Comments, link
    definitions, navigation and tables of contents are left out; a code block or a table stays whole, with the paragraph
    before it. The source_id is the file's path in the folder with the heading or the page as in an address:
    travel.md#abroad, rules.pdf#page=3. The fields of a Markdown file's front matter are its passages' metadata, to
    filter on. Texts are UTF-8, compressed (.gz, .zst, .bz2, .xz) or not. Other binary files, files in other encodings,
    PDFs without text, and symbolic links that lead out of the folder are rejected. The offset is the file's number.
    """

    version: ClassVar[str] = "3"  # since 3, with metadata
    example: ClassVar[str] = "folder:docs?glob=**/*.md&words=200"
    Options: ClassVar[type[DatasetOptions]] = FolderOptions
    options: FolderOptions

    def files(self) -> list[Path]:
        return [self._root / file.name for file in self._files if file.fault is None]

    def identity(self) -> dict[str, Any]:
        own: dict[str, Any] = {"names": content_id(*(file.name for file in self._files))}
        # With the extra installed, the same files give more passages.
        unread = sorted({ending(file.name) for file in self._files if missing(file.name)})
        return own | {"unread": unread} if unread else own

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
        """The folder, with links and `..` in its path resolved. Raises InputError if it is not a folder."""
        folder = self.source()
        if not os.path.isdir(folder):
            check_source(folder)
            raise InputError(f"{folder} is a file, and this format reads a folder: name the folder it is in")
        return folder.resolve()

    @cached_property
    def _files(self) -> list[_File]:
        """The files that match the pattern, sorted by path. Raises InputError if there are none."""
        pattern = self.options.glob.split("/")
        hidden = any(part.startswith(".") for part in pattern)
        names = sorted(name for name in _names(self._root, hidden) if _matches(name.split("/"), pattern))
        if not names:
            raise InputError(f"{self.source()} has no files that match {self.options.glob!r}: see glob=")
        return [_File(name, self._fault(name)) for name in names]

    def _fault(self, name: str) -> Reject | None:
        """Return why a file is not read; None if it is read."""
        escaped = name.encode(errors="backslashreplace").decode()
        if escaped != name:
            return Reject("invalid_unicode", f"{escaped}: the name of the file is not UTF-8")
        path = self._root / name
        if not path.is_symlink():
            return None if path.is_file() else Reject("unreadable_file", f"{name} is neither a file nor a folder")
        target = Path(os.path.realpath(path))
        if not target.is_relative_to(self._root):
            return Reject("outside_folder", f"{name} is a symbolic link out of the folder and is not followed")
        if target.is_dir():
            return Reject("unreadable_file", f"{name} is a link to a folder: its files are read where they are")
        return None if target.is_file() else Reject("unreadable_file", f"{name} is a broken link")

    def _passages(self, name: str) -> Iterator[Passage]:
        """Yield the passages of a file. Raises RowError."""
        path, last = self._root / name, name.rpartition("/")[2].strip()
        document = read_document(name, _content_of(path, archive=True) if is_binary(name) else _text_of(path))
        found, metadata = False, json.dumps(document.metadata, ensure_ascii=False, sort_keys=True, default=str)
        for title, passage, place in parts(document, last, self.options.words):
            found = True
            yield Passage(title, passage, f"{name}#{place}" if place else name, metadata)
        if not found:
            raise RowError("empty_text", "the file has no text, or none below its headings")


def _names(root: Path, hidden: bool) -> Iterator[str]:
    """Yield the relative paths of everything in a folder except folders; links to folders are not followed."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be listed: {error.strerror}. Check its permissions") from error

    for parent, folders, names in os.walk(root, onerror=refuse):
        folders[:] = [name for name in folders if hidden or not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in names + links:
            if hidden or not name.startswith("."):
                yield Path(parent, name).relative_to(root).as_posix()


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Return whether a path matches a pattern, part by part; `**` stands for any number of parts."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _content_of(path: Path, archive: bool = False) -> bytes:
    """Return the bytes of a file, unpacked; with `archive`, also of a format that is an archive. Raises RowError."""
    try:
        with open_counted(path) if archive else open_source(path) as source:
            content = source.read(FILE_LIMIT + 1)
    except (InputError, OSError) as error:
        raise RowError("unreadable_file", ascii(str(error))[1:-1]) from error
    if len(content) > FILE_LIMIT:
        raise RowError("over_long", f"the file is larger than {FILE_LIMIT:,} bytes: cut it into several")
    return content


def _text_of(path: Path) -> str:
    """Return the text of a file. Raises RowError."""
    content = _content_of(path)
    if b"\0" in content:
        raise RowError("binary_file", f"a NUL at byte {content.index(0) + 1}")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise RowError("invalid_unicode", f"not UTF-8 at byte {error.start + 1} ({error.reason})") from error
    if not text.strip():
        raise RowError("empty_text", "the file is blank")
    return text
