"""PDF as blocks, page by page, by pypdf."""

import io
import re

from pypdf import PdfReader

from vitalfew.tasks.datasets.base import RowError
from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument

_PARAGRAPH = re.compile(r"\n[^\S\n]*+\n\s*+")
_BROKEN_WORD = re.compile(r"(?<=[^\W\d_])(?:-|\u00ad)\n(?=([^\W\d_]))")


def read_pdf(content: bytes) -> ReadDocument:
    """Read a PDF. A page that cannot be read is a fault, one without text is counted. Raises RowError: it is encrypted,
    or has no text."""
    reader = PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not _opens(reader):
        raise RowError("encrypted", "the PDF needs a password: save it without one")
    blocks, faults, empty = list[Block](), list[tuple[str, str]](), 0
    for number, page in enumerate(reader.pages, start=1):
        try:
            text = page.extract_text().strip()
        except MemoryError:
            raise
        except Exception as error:  # of any kind, as in readers.py
            faults.append(("unreadable_file", f"page {number} is broken: print it again ({ascii(error)[:200]})"))
            continue
        empty += not text
        whole = _BROKEN_WORD.sub(lambda match: "" if match[1].islower() else match[0], text)
        blocks += [Block(part.strip(), page=number) for part in _PARAGRAPH.split(whole) if part.strip()]
    if not blocks and not faults:
        raise RowError("no_text", f"the PDF has {len(reader.pages)} pages and no text: pages of scans need OCR first")
    return ReadDocument(blocks, faults=faults, notes={"pages_without_text": empty})


def _opens(reader: PdfReader) -> bool:
    """Return whether an encrypted PDF can be read without a password."""
    try:
        return bool(reader.decrypt(""))
    except Exception:  # a cipher that needs another package, or one that pypdf does not know
        return False
