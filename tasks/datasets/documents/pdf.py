"""PDF as blocks, page by page, by pypdf."""

import io
import re

from pypdf import PdfReader

from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument
from vitalfew.tasks.datasets.rows import RowError

_PARAGRAPH = re.compile(r"\n\s*\n")
_BROKEN_WORD = re.compile(r"(?<=[a-z])-\n(?=[a-z])")


def read_pdf(content: bytes) -> ReadDocument:
    """Read a PDF. Raises RowError: it is encrypted, or has no text."""
    reader = PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not _opens(reader):
        raise RowError("encrypted", "the PDF needs a password: save it without one")
    blocks = [
        Block(text.strip(), page=number)
        for number, page in enumerate(reader.pages, start=1)
        for text in _PARAGRAPH.split(_BROKEN_WORD.sub("", page.extract_text()))
        if text.strip()
    ]
    if not blocks:
        raise RowError("no_text", f"the PDF has {len(reader.pages)} pages and no text: pages of scans need OCR first")
    return ReadDocument(blocks)


def _opens(reader: PdfReader) -> bool:
    """Return whether an encrypted PDF can be read without a password."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # a cipher that needs another package, or one that pypdf does not know
        return False
