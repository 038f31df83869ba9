"""The readers of documents by the ending of a file's name; those of formats other than Markdown need an extra."""

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from vitalfew.tasks.datasets.base import RowError
from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument
from vitalfew.tasks.datasets.documents.encodings import decoded

PACKED = re.compile(r"\.(gz|zst|bz2|xz)$", re.IGNORECASE)


class DocumentReader(NamedTuple):
    """A function "module:function" that makes a document of a file, of its bytes or of its text. `packages`: the
    modules that it needs, of the extra `documents`."""

    function: str
    packages: tuple[str, ...] = ()
    is_binary: bool = False


_MARKDOWN = DocumentReader("markdown:read_markdown")
_HTML = DocumentReader("html:read_html", ("selectolax",))
READERS: dict[str, DocumentReader] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd"), _MARKDOWN),
    ".mdx": DocumentReader("markdown:read_mdx"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), _HTML),
    ".rst": DocumentReader("rst:read_rst", ("docutils",)),
    ".ipynb": DocumentReader("office:read_notebook", ("nbformat", "mammoth", "selectolax")),
    ".docx": DocumentReader("office:read_docx", ("mammoth", "selectolax", "nbformat"), is_binary=True),
    ".pdf": DocumentReader("pdf:read_pdf", ("pypdf",), is_binary=True),
}
_TEXT = DocumentReader("readers:read_text")


def ending(name: str) -> str:
    """The ending of a file's name, in lower case, without the packer's."""
    last = PACKED.sub("", name.rpartition("/")[2])
    return f".{last.rpartition('.')[2].lower()}" if "." in last else ""


def is_binary(name: str) -> bool:
    """Return whether a file of this name is read as bytes."""
    return READERS.get(ending(name), _TEXT).is_binary


def missing(name: str) -> Sequence[str]:
    """The packages that reading a file of this name lacks."""
    return [package for package in READERS.get(ending(name), _TEXT).packages if find_spec(package) is None]


def reader_of(name: str) -> Callable[[Any], ReadDocument]:
    """The function that reads a file of this name, with the packages that it needs."""
    module, _, function = READERS.get(ending(name), _TEXT).function.partition(":")
    read: Callable[[Any], ReadDocument] = getattr(import_module(f"{__package__}.{module}"), function)
    return read


def read_document(name: str, content: bytes, encoding: str | None = None) -> ReadDocument:
    """Read a file. `encoding`: of a text that neither states its own nor is UTF-8. Raises RowError, also for the errors
    that a reader has with a broken file: they are of any kind."""
    read, is_html = reader_of(name), READERS.get(ending(name)) is _HTML
    given: Any = content if is_binary(name) else decoded(content, encoding, is_html)
    try:
        document = read(given)
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
