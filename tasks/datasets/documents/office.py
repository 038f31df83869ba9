"""Word documents (DOCX) and Jupyter notebooks as blocks, by mammoth and nbformat."""

import io
import zipfile
from typing import Any

import mammoth
import nbformat

from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument
from vitalfew.tasks.datasets.documents.html import read_html
from vitalfew.tasks.datasets.documents.markdown import read_markdown
from vitalfew.tasks.datasets.rows import RowError

UNPACKED = 256 << 20
"""Bytes that the parts of a DOCX may have, unpacked: a small file can announce any number."""


def read_docx(content: bytes) -> ReadDocument:
    """Read a Word document. Raises RowError."""
    file = io.BytesIO(content)
    with zipfile.ZipFile(file) as archive:
        if sum(part.file_size for part in archive.infolist()) > UNPACKED:
            raise RowError("over_long", f"its parts have more than {UNPACKED:,} bytes unpacked")
    file.seek(0)
    no_image = mammoth.images.img_element(lambda image: {"src": ""})
    return read_html(mammoth.convert_to_html(file, convert_image=no_image).value)


def read_notebook(text: str) -> ReadDocument:
    """Read a notebook: its texts and its code, without outputs."""
    blocks = list[Block]()
    for cell in nbformat.reads(text, as_version=4).cells:
        blocks += read_markdown(cell.source).blocks if cell.cell_type == "markdown" else _code(cell)
    return ReadDocument(blocks)


def _code(cell: Any) -> list[Block]:
    return [Block(cell.source, is_whole=True)] if cell.source.strip() else []
