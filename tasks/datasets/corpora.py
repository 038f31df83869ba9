"""Corpora of passages without questions: the Wikipedia passages of DPR, and JSON lists of {title, text}.

`dpr_wiki` reads `psgs_w100.tsv`, 21 million blocks of 100 words: Karpukhin et al., "Dense Passage Retrieval", EMNLP
2020 (arXiv 2004.04906), section 4.1. `titletext` is the corpus format of 2WikiMultihopQA, MuSiQue and HippoRAG.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from vitalfew.tasks.datasets.base import InputError, Passage
from vitalfew.tasks.datasets.delimited import QUOTED_TSV, columns_of, delimited_rows
from vitalfew.tasks.datasets.rows import Row, RowDataset, id_of, stream_json, text_of

_DPR_COLUMNS = ("id", "text", "title")


class DprWiki(RowDataset):
    """Wikipedia passages as DPR, Contriever, Atlas and Self-RAG use them; no questions.

    Tab-separated, quoted like CSV, compressed or not; the first line names the columns id, text and title, in any
    order. The offset is the line.
    """

    example: ClassVar[str] = "dpr_wiki:data/psgs_w100.tsv.gz"

    def rows(self) -> Iterator[tuple[int, Any]]:
        present = columns_of(self.source(), QUOTED_TSV)
        if not set(_DPR_COLUMNS) <= set(present):
            raise InputError(
                f"{self.source()}: the first line must name the columns {', '.join(_DPR_COLUMNS)}, separated by "
                f"tabs; it has {', '.join(repr(name[:40]) for name in present[:12])}"
            )
        return delimited_rows(self.source(), QUOTED_TSV)

    def read(self, row: Row, number: int) -> Iterator[Passage]:
        yield Passage(text_of(row, "title", blank=True), text_of(row, "text"), id_of(row, "id"))


class TitleText(RowDataset):
    """Passages of a JSON list of {title, text}; no questions.

    Other keys are skipped. The title is required but may be empty.
    """

    example: ClassVar[str] = "titletext:data/2wikimultihopqa_corpus.json"

    def rows(self) -> Iterator[tuple[int, Any]]:
        return stream_json(self.source(), "a JSON array of {title, text}")

    def read(self, row: Row, number: int) -> Iterator[Passage]:
        text, title = text_of(row, "text"), text_of(row, "title", blank=True)
        yield Passage(title, text, title)
