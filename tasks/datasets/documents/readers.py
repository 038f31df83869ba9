"""The readers of documents by the ending of a file's name; those of formats other than Markdown need an extra."""

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument
from vitalfew.tasks.datasets.documents.markdown import read_markdown
from vitalfew.tasks.datasets.rows import RowError

PACKED = re.compile(r"\.(gz|zst|bz2|xz)$", re.IGNORECASE)
MARKDOWN = (".md", ".markdown", ".mdown", ".mkd")
PARSED = 8 << 20
"""Characters of a text for the readers of the extra: what they make of it takes some ten times its size."""


class DocumentReader(NamedTuple):
    """A function "module:function" that makes a document of a file, of its bytes or of its text. `packages`: the
    modules that it needs, of the extra `documents`."""

    function: str
    packages: tuple[str, ...]
    is_binary: bool = False


READERS: dict[str, DocumentReader] = {
    ".html": DocumentReader("html:read_html", ("selectolax",)),
    ".htm": DocumentReader("html:read_html", ("selectolax",)),
    ".xhtml": DocumentReader("html:read_html", ("selectolax",)),
    ".rst": DocumentReader("rst:read_rst", ("docutils",)),
    ".ipynb": DocumentReader("office:read_notebook", ("nbformat", "mammoth", "selectolax")),
    ".docx": DocumentReader("office:read_docx", ("mammoth", "selectolax", "nbformat"), is_binary=True),
    ".pdf": DocumentReader("pdf:read_pdf", ("pypdf",), is_binary=True),
}


def ending(name: str) -> str:
    """The ending of a file's name, in lower case, without the packer's."""
    last = PACKED.sub("", name.rpartition("/")[2])
    return f".{last.rpartition('.')[2].lower()}" if "." in last else ""


def is_binary(name: str) -> bool:
    """Return whether a file of this name is read as bytes."""
    return ending(name) in READERS and READERS[ending(name)].is_binary


def missing(name: str) -> Sequence[str]:
    """The packages that reading a file of this name lacks."""
    reader = READERS.get(ending(name))
    return [package for package in reader.packages if find_spec(package) is None] if reader else []


def read_document(name: str, content: Any) -> ReadDocument:
    """Read a file, of bytes if `is_binary`, else of text. Raises RowError."""
    if reader := READERS.get(ending(name)):
        if missing(name):
            raise RowError(
                "missing_reader", f"to read {ending(name)}: pip install 'vitalfew[documents]', then index again"
            )
        if len(content) > PARSED and not reader.is_binary:
            raise RowError("over_long", f"a {ending(name)} has at most {PARSED:,} characters: cut it into several")
        module, _, function = reader.function.partition(":")
        return _read(getattr(import_module(f"vitalfew.tasks.datasets.documents.{module}"), function), content)
    if ending(name) in MARKDOWN:
        return read_markdown(content)
    return ReadDocument([Block(content.strip())])


def _read(read: Callable[[Any], ReadDocument], content: Any) -> ReadDocument:
    """Raises RowError, also for the errors that a reader has with a broken file: they are of any kind."""
    try:
        return read(content)
    except RowError:
        raise
    except Exception as error:
        raise RowError("unreadable_file", f"it is broken or not what its name says ({ascii(error)[:200]})") from error
