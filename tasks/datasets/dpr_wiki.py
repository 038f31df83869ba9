"""The Wikipedia passages of DPR: 21 million blocks of 100 words.

Format: Karpukhin et al., "Dense Passage Retrieval", EMNLP 2020 (arXiv 2004.04906), section 4.1; `psgs_w100.tsv`.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from vitalfew.tasks.datasets.base import InputError, Passage, Record
from vitalfew.tasks.datasets.delimited import QUOTED_TSV, columns_of, delimited_rows
from vitalfew.tasks.datasets.files import FileDataset, id_of, text_of
from vitalfew.tasks.datasets.rows import records_of

_COLUMNS = ("id", "text", "title")


class DprWiki(FileDataset):
    """Wikipedia passages as DPR, Contriever, Atlas and Self-RAG use them; no questions.

    Tab-separated, quoted like CSV, compressed or not; the first line names the columns id, text and title, in any
    order. The offset is the line.
    """

    example: ClassVar[str] = "dpr_wiki:data/psgs_w100.tsv.gz"

    def records(self) -> Iterator[tuple[int, Record]]:
        present = columns_of(self.source(), QUOTED_TSV)
        if not set(_COLUMNS) <= set(present):
            raise InputError(
                f"{self.source()}: the first line must name the columns {', '.join(_COLUMNS)}, separated by "
                f"tabs; it has {', '.join(repr(name[:40]) for name in present[:12])}"
            )
        return records_of(delimited_rows(self.source(), QUOTED_TSV), _passages)


def _passages(row: dict[str, Any]) -> Iterator[Passage]:
    """Yield the passage of a row. Raises RowError."""
    yield Passage(text_of(row, "title", blank=True), text_of(row, "text"), id_of(row, "id"))
