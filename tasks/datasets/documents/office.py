"""Word documents (DOCX) and Jupyter notebooks as blocks, by mammoth and nbformat."""

import io
from collections import Counter
from typing import Any

import mammoth
import nbformat

from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument
from vitalfew.tasks.datasets.documents.html import read_html
from vitalfew.tasks.datasets.documents.markdown import read_markdown


def read_docx(content: bytes) -> ReadDocument:
    no_image = mammoth.images.img_element(lambda image: {"src": ""})
    return read_html(mammoth.convert_to_html(io.BytesIO(content), convert_image=no_image).value)


def read_notebook(text: str) -> ReadDocument:
    """Read a notebook: its texts and its code, without outputs."""
    read = [_cell(cell) for cell in nbformat.reads(text, as_version=4).cells]
    notes = Counter[str]()
    for part in read:
        notes.update(part.notes)
    blocks, faults = ([each for part in read for each in getattr(part, name)] for name in ("blocks", "faults"))
    fields = next((part.metadata for part in read[:1]), {})
    return ReadDocument(blocks, metadata=fields, faults=faults, notes=notes)


def _cell(cell: Any) -> ReadDocument:
    if cell.cell_type == "markdown" or (cell.cell_type == "raw" and cell.source.startswith("---\n")):
        return read_markdown(cell.source)
    return ReadDocument([Block(cell.source, is_whole=True)] if cell.source.strip() else [])
