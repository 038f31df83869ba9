"""PubHealth: claims about public health with the verdicts of fact checkers and their articles.

Format: the TSV of the release (PUBHEALTH, train/dev/test.tsv), Kotonya & Toni, EMNLP 2020 (arXiv 2010.09926). Not all
of its rows are whole: some lack a label or have another column's text in its place. And the JSON lines of Self-RAG's
evaluation (`health_claims_processed.jsonl`, arXiv 2310.11511), which keeps the claims that are true or false.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from storage.ids import passage_id
from tasks.datasets.base import DatasetOptions, Passage, Question, Record, Reject
from tasks.datasets.files import FileDataset, RowError, id_of, kind_of, text_of, value_of
from tasks.datasets.rows import records_of, tsv_or_json_lines

LABELS = ("true", "false", "mixture", "unproven")
_VERDICTS = {"supports": "true", "refutes": "false"}
"""What Self-RAG's file calls them, after FEVER."""


class PubHealthOptions(DatasetOptions):
    """Which claims, and whether their articles are the corpus."""

    binary: bool = Field(default=False, description="keep only claims that are true or false, as Self-RAG does")
    passages: bool = Field(default=False, description="the article (`main_text`) of each claim is its gold passage")


class PubHealth(FileDataset):
    """Claims of PubHealth as questions, their labels (true, false, mixture, unproven) as gold answers.

    Tab-separated, the first line naming the columns: "claim_id", "claim", "label" and, with passages=true, "main_text"
    are used. Or one JSON object a line, the claim at "claim" or "question", the label at "label" (SUPPORTS and REFUTES
    are true and false) or else in "answers". A row whose label is none of the four is rejected; with binary=true the
    claims that are a mixture or unproven are too ("left_out"). An article comes before its claim; a claim whose article
    is blank has no gold passage. The offset is the line.
    """

    example: ClassVar[str] = "pubhealth:data/PUBHEALTH/test.tsv?binary=true"
    has_passages: ClassVar[bool] = False
    Options: ClassVar[type[DatasetOptions]] = PubHealthOptions
    options: PubHealthOptions

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(tsv_or_json_lines(self.source()), self._claim)

    def _claim(self, row: dict[str, Any]) -> Iterator[Record]:
        """The claim of one row, after its article. Raises RowError."""
        text = text_of(row, "claim" if "claim" in row else "question")
        label, name = _label(row), id_of(row, "claim_id" if "claim_id" in row else "id")
        if self.options.binary and label not in LABELS[:2]:
            yield Reject("left_out", f"binary=true leaves out the claims that are {label!r}")
            return
        article = text_of(row, "main_text", blank=True) if self.options.passages else ""
        if article:
            yield Passage("", article, name)
        yield Question(text, (label,), (passage_id(article),) if article else (), (), name)


def _label(row: dict[str, Any]) -> str:
    """The label of a row, as it is called in the release. Raises RowError."""
    value = row["label"] if row.get("label") is not None else value_of(row, "answers" if "answers" in row else "label")
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    # A JSON writer that knows types makes true and false of the two words.
    found = str(value).strip().lower() if isinstance(value, str | bool) else ""
    label = _VERDICTS.get(found, found)
    if label not in LABELS:
        raise RowError("unknown_label", f"the label is {kind_of(value)}, one of {', '.join(LABELS)} is due")
    return label
