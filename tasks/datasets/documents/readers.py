"""The readers of documents by the ending of a file's name; those of formats other than Markdown need an extra."""

import codecs
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from charset_normalizer import from_bytes

from vitalfew.tasks.datasets.base import RowError
from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_DECLARED = {
    "html": re.compile(rb"""<(?:meta[^<>]*?charset|\?xml[^<>]*?encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I),
    "any": re.compile(rb"-\*-[^\n]*?coding:[ \t]*([\w.-]+)"),
}
_START = 1024
"""Bytes in which a file declares its encoding, as HTML has it."""
_LOOK = 64 << 10
"""Bytes around the first fault of which the likely encoding is told."""
# What pages mean by these names: https://encoding.spec.whatwg.org/#names-and-labels
_MEANT = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
    "euc_kr": "cp949", "iso8859-9": "cp1254", "tis_620": "cp874", "utf-16": "utf-8",
}  # fmt: skip


def decoded(content: bytes, encoding: str | None = None, is_html: bool = False) -> str:
    """Decode a text. `encoding`: of a text that neither states its own nor is UTF-8; `is_html`: it may declare one as
    HTML and XML do. Raises RowError."""
    for mark, name in _MARKS.items():
        if content.startswith(mark):
            return _read(content[len(mark) :], name)
    # Encodings of seven bits, such as ISO-2022-JP, are UTF-8 too.
    own = (encoding, "utf-8") if content.isascii() else ("utf-8", encoding)
    for name in (_declared(content, is_html), *own):
        if name:
            try:
                if "\0" not in (text := content.decode(name)):
                    return text
            except UnicodeDecodeError:
                continue
    if b"\0" in content:
        raise RowError("binary_file", f"a NUL at byte {content.index(0) + 1}{_wide(content[:_LOOK])}")
    return _read(content, encoding or "utf-8")


def _declared(content: bytes, is_html: bool) -> str | None:
    """The encoding that a text declares, if Python knows it."""
    found = _DECLARED["any"].search(content[:_START]) or (is_html and _DECLARED["html"].search(content[:_START]))
    if not found:
        return None
    try:
        known = codecs.lookup(found[1].decode()).name
    except LookupError:
        return None
    return _MEANT.get(known, known)


def _read(content: bytes, encoding: str) -> str:
    """Raises RowError, which names the likely encoding."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        likely = _likely(content[max(0, error.start - _LOOK // 2) :][:_LOOK])
        remedy = f"; it looks like {likely}: read it with encoding={likely}" if likely else ""
        fault = f"not {encoding.upper()} at byte {error.start + 1} ({error.reason}){remedy}"
        raise RowError("invalid_unicode", fault) from error


def _likely(content: bytes) -> str | None:
    """The encoding of most texts that look like this one; of several that read it alike, that of Western Europe."""
    found = from_bytes(content).best()
    alike = found.could_be_from_charset if found else []
    return "cp1252" if "cp1252" in alike else next(iter(alike), None)


def _wide(content: bytes) -> str:
    """The remedy, where every other byte is a NUL: so is English in UTF-16."""
    even, odd = (4 * content[side::2].count(0) > len(content) for side in (0, 1))
    wide = "utf-16-be" if even else "utf-16-le"
    return f"; it looks like {wide}: read it with encoding={wide}" if even != odd else ""


PACKED = re.compile(r"\.(gz|zst|bz2|xz)$", re.IGNORECASE)


class DocumentReader(NamedTuple):
    """A function "module:function" that makes a document of a file, of its bytes or of its text. `packages`: the
    modules that it needs, of the extra `documents`."""

    function: str
    packages: tuple[str, ...] = ()
    is_binary: bool = False


_MARKDOWN = DocumentReader("markdown:read_markdown")
_HTML = DocumentReader("html:read_html")
READERS: dict[str, DocumentReader] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd"), _MARKDOWN),
    ".mdx": DocumentReader("markdown:read_mdx"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), _HTML),
    ".rst": DocumentReader("rst:read_rst", ("docutils",)),
    ".ipynb": DocumentReader("office:read_notebook", ("nbformat", "mammoth")),
    ".docx": DocumentReader("office:read_docx", ("mammoth", "nbformat"), is_binary=True),
    ".pdf": DocumentReader("pdf:read_pdf", ("pypdf",), is_binary=True),
}
_TEXT = DocumentReader("readers:read_text")


def _reader(name: str) -> DocumentReader:
    return READERS.get(ending(name), _TEXT)


def ending(name: str) -> str:
    """The ending of a file's name, in lower case, without the packer's."""
    last = PACKED.sub("", name.rpartition("/")[2])
    return f".{last.rpartition('.')[2].lower()}" if "." in last else ""


def is_binary(name: str) -> bool:
    """Return whether a file of this name is read as bytes."""
    return _reader(name).is_binary


def missing(name: str) -> Sequence[str]:
    """The packages that reading a file of this name lacks."""
    return [package for package in _reader(name).packages if find_spec(package) is None]


def reader_of(name: str) -> Callable[[Any], ReadDocument]:
    """The function that reads a file of this name, with the packages that it needs."""
    module, _, function = _reader(name).function.partition(":")
    return getattr(import_module(f"{__package__}.{module}"), function)


def read_document(name: str, content: bytes, encoding: str | None = None) -> ReadDocument:
    """Read a file. `encoding`: of a text that neither states its own nor is UTF-8. Raises RowError, also for the errors
    that a reader has with a broken file: they are of any kind."""
    given: Any = content if is_binary(name) else decoded(content, encoding, _reader(name) is _HTML)
    try:
        document = reader_of(name)(given)
        if not any(block.text.strip() and not block.level for block in document.blocks):
            raise RowError("empty_text", "the file has no text, or none below its headings")
    except (RowError, MemoryError):
        raise
    except Exception as error:
        raise RowError("unreadable_file", f"it is broken or not what its name says ({ascii(error)[:200]})") from error
    return document


def read_text(text: str) -> ReadDocument:
    """Read a text without marks."""
    return ReadDocument([Block(text.strip())])
