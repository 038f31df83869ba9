"""A folder of documents, cut into passages at headings and paragraphs."""

import codecs
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pathspec import GitIgnoreSpec
from pydantic import AfterValidator, Field

from vitalfew.configs.schema import LoadConfig
from vitalfew.storage.ids import content_id
from vitalfew.tasks.datasets.base import DatasetOptions, InputError, Passage, Record, Reject, RowError
from vitalfew.tasks.datasets.documents.process import Bounds, ReadingProcess
from vitalfew.tasks.datasets.documents.readers import ending, is_binary, missing
from vitalfew.tasks.datasets.files import FileDataset, check_source, open_counted, open_file

IGNORE_FILE = ".vitalfewignore"
EXCLUDED = """
# What sites are made with: templates, styles, programs, pictures, films.
_templates/ _themes/ _layouts/ _includes/ _static/ _sass/ node_modules/ __pycache__/
*.css *.scss *.js *.mjs *.map *.woff *.woff2 *.ttf *.pyc
*.svg *.ico *.png *.jpg *.jpeg *.gif *.webp *.avif *.bmp *.mp4 *.webm *.mov
# Lists of packages and of pages.
requirements*.txt constraints*.txt *.lock package-lock.json pnpm-lock.yaml go.sum
SUMMARY.md _sidebar.md _navbar.md _toc.yml mkdocs.yml mkdocs.yaml _config.yml _quarto.yml sidebars.json
genindex.html py-modindex.html search.html print.html 404.html search*index*.json objects.inv
sitemap.xml robots.txt CNAME
""".splitlines()
"""Patterns of what a folder of documents holds beside documents, several a line; a pattern `!NAME` takes one back."""


def _known(encoding: str | None) -> str | None:
    try:
        return encoding and codecs.lookup(encoding).name
    except LookupError:
        raise ValueError(f"Python knows no encoding {encoding!r}: try cp1252, utf-16-le or shift_jis") from None


class Folder(FileDataset):
    """Passages of the documents in a folder, in the order of their paths; no questions.

    Markdown (also MDX, Quarto, R Markdown), HTML and text are read, and with the extra `documents`
    reStructuredText, PDF, DOCX and notebooks. Documents are cut at headings: a passage's title is the path of headings
    above it ("Travel rules › Abroad"), below the title in the front matter, the heading of all others, or the file's
    name. Comments, link definitions, navigation and tables of contents are left out; a code block or a table stays
    whole, with the paragraph before it. The source_id is the file's path in the folder with the heading or the page as
    in an address: travel.md#abroad, rules.pdf#page=3. The fields of a Markdown file's front matter are its passages'
    metadata, to filter on. A text is decoded by its byte order mark, the charset it declares, as UTF-8, or by
    `encoding=`; it may be compressed (.gz, .zst, .bz2, .xz). Other binary files, PDFs without text, files that pass the
    bounds of a document (`load.document_seconds`, `document_mb`, `document_text_mb`), and symbolic links that lead out
    of the folder are rejected. The offset is the file's number.
    """

    version: ClassVar[str] = "5"  # since 5, tables of Markdown have short lines of dashes
    example: ClassVar[str] = "folder:docs?glob=**/*.md&words=200"

    class Options(DatasetOptions):
        glob: str = Field(
            "**/*",
            min_length=1,
            description="files to read, by their path in the folder: `*.md`, `docs/**/*.txt`. Names that start with a "
            "dot are left out, unless a part of the pattern does too",
        )
        exclude: str = Field(
            "",
            description="files to leave out, as gitignore patterns with commas between them: `drafts/,*.tmp`. "
            "Templates, styles, pictures and lists of packages and pages are left out by default; `!SUMMARY.md` reads "
            "such a file. A file .vitalfewignore in the folder can have patterns too, one a line",
        )
        encoding: Annotated[str | None, AfterValidator(_known)] = Field(
            None,
            description="encoding of texts that are not UTF-8 and do not state theirs: `cp1252`, `shift_jis` or "
            "another name of Python's",
        )
        words: int = Field(
            300,
            ge=0,
            description="maximum words in a passage; 0: the text below a heading is one passage. Texts are cut "
            "between paragraphs. A longer paragraph is cut after a sentence, line, clause or word. Without spaces "
            "between words, one Chinese or Japanese letter counts as a word, or four Thai, Lao, Khmer or Burmese ones",
        )

    options: Options
    _bounds = Bounds()

    def limit(self, config: LoadConfig) -> None:
        self._bounds = Bounds(float(config.document_seconds), config.document_mb, config.document_text_mb)

    def notes(self) -> Mapping[str, int]:
        return self._notes

    def files(self) -> list[Path]:
        return [self._root / name for name, fault in self._files.items() if fault is None]

    def identity(self) -> dict[str, Any]:
        own: dict[str, Any] = {"names": content_id(*self._files), "bounds": self._bounds._asdict()}
        # With the extra installed, the same files give more passages.
        unread = sorted({ending(name) for name in self._files if missing(name)})
        return own | {"unread": unread} if unread else own

    def records(self) -> Iterator[tuple[int, Record]]:
        self._notes = Counter(excluded_files=len(self._matching) - len(self._files))
        with ReadingProcess(self._bounds) as process:
            for number, (name, fault) in enumerate(self._files.items(), start=1):
                try:
                    for record in [fault] if fault else self._read(name, process):
                        yield number, record
                except RowError as error:
                    yield number, error.reject(name)

    @cached_property
    def _root(self) -> Path:
        """The folder, with links and `..` in its path resolved. Raises InputError if it is not a folder."""
        folder = self.source()
        if not os.path.isdir(folder):
            check_source(folder)
            raise InputError(f"{folder} is a file, and this format reads a folder: name the folder it is in")
        return folder.resolve()

    @cached_property
    def _matching(self) -> list[str]:
        """The paths that match the pattern, sorted."""
        pattern = self.options.glob.split("/")
        hidden = any(part.startswith(".") for part in pattern)
        return sorted(name for name in _names(self._root, hidden) if _matches(name.split("/"), pattern))

    @cached_property
    def _files(self) -> dict[str, Reject | None]:
        """The files that match the pattern and are not left out, by their paths in the folder, each with the reason why
        it is not read, if there is one. Raises InputError if there are none."""
        excluded = self._patterns()
        names = [name for name in self._matching if not excluded.match_file(name)]
        if not names:
            count = len(self._matching)
            left_out = f" but for {count:,} that are left out: see exclude=" if count else ": see glob="
            raise InputError(f"{self.source()} has no files that match {self.options.glob!r}{left_out}")
        return {name: self._fault(name) for name in names}

    def _patterns(self) -> GitIgnoreSpec:
        """The patterns of files to leave out: default, the folder's own and the option's. Raises InputError."""
        default = [pattern for line in EXCLUDED if not line.startswith("#") for pattern in line.split()]
        file = self._root / IGNORE_FILE
        try:
            own = file.read_text(encoding="utf-8-sig").splitlines() if file.exists() else []
            return GitIgnoreSpec.from_lines([*default, IGNORE_FILE, *own, *self.options.exclude.split(",")])
        except (OSError, ValueError) as error:
            raise InputError(f"the patterns in {file} or exclude= cannot be read: {error}") from error

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

    def _read(self, name: str, process: ReadingProcess) -> Iterator[Passage | Reject]:
        """Yield what of a file could not be read, and its passages. Raises RowError."""
        if missing(name):
            raise RowError("missing_reader", f"to read {ending(name)}, install the extra documents, then index again")
        read = process.read(name, self._content(name), self.options.words, self.options.encoding)
        self._notes.update(read.notes)
        for reason, detail in read.faults:
            yield Reject(reason, f"{name}: {detail}")
        for title, passage, place in read.passages:
            yield Passage(title, passage, f"{name}#{place}" if place else name, read.metadata)

    def _content(self, name: str) -> bytes:
        """The bytes of a file, unpacked if it is a text. Raises RowError."""
        path, binary = self._root / name, is_binary(name)
        most, setting = (self._bounds.memory, "document_mb") if binary else (self._bounds.text, "document_text_mb")
        try:
            check_source(path)
            with open_counted(path) if binary else open_file(path) as source:
                content = source.read((most << 20) + 1)
        except (InputError, OSError) as error:
            raise RowError("unreadable_file", ascii(str(error))[1:-1]) from error
        if len(content) > most << 20:
            raise RowError("over_long", f"the file is larger than {most:,} MiB: raise load.{setting}, or cut it")
        return content


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
