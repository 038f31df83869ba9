"""PubHealth: claims about public health with the verdicts of fact checkers and their articles.

Format: the TSV of the release (PUBHEALTH, train/dev/test.tsv), Kotonya & Toni, EMNLP 2020 (arXiv 2010.09926). Some
of its rows lack a label or have another column's text in its place. Also the JSON lines of Self-RAG's evaluation
(`health_claims_processed.jsonl`, arXiv 2310.11511), which keeps the claims that are true or false.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import DatasetOptions, Passage, Question, Record, Reject
from vitalfew.tasks.datasets.files import FileDataset, RowError, id_of, kind_of, text_of, value_of
from vitalfew.tasks.datasets.rows import records_of, tsv_or_json_lines

LABELS = ("true", "false", "mixture", "unproven")
_VERDICTS = {"supports": "true", "refutes": "false"}
"""The labels of Self-RAG's file, which come from FEVER, and their names here."""


class PubHealthOptions(DatasetOptions):
    """Which claims to ask, and whether their articles are the corpus."""

    binary: bool = Field(default=False, description="keep only claims that are true or false, as Self-RAG does")
    passages: bool = Field(default=False, description="use the article (`main_text`) of a claim as its gold passage")


class PubHealth(FileDataset):
    """Claims of PubHealth as questions, with their labels (true, false, mixture, unproven) as gold answers.

    Tab-separated; the first line names the columns, of which "claim_id", "claim", "label" and, with passages=true,
    "main_text" are used. Or one JSON object a line, with the claim at "claim" or "question" and the label at "label"
    (SUPPORTS and REFUTES mean true and false) or else in "answers". A row with another label than the four is rejected;
    binary=true also rejects the claims that are a mixture or unproven ("left_out"). An article comes before its claim.
    A claim whose article is blank has no gold passage. The offset is the line.
    """

    example: ClassVar[str] = "pubhealth:data/PUBHEALTH/test.tsv?binary=true"
    has_passages: ClassVar[bool] = False
    Options: ClassVar[type[DatasetOptions]] = PubHealthOptions
    options: PubHealthOptions

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(tsv_or_json_lines(self.source()), self._claim)

    def _claim(self, row: dict[str, Any]) -> Iterator[Record]:
        """Yield the article of one row, if it is asked for, then its claim. Raises RowError."""
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
    """Return the label of a row, by its name in the release. Raises RowError."""
    value = row["label"] if row.get("label") is not None else value_of(row, "answers" if "answers" in row else "label")
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    # A JSON writer with types turns the words true and false into booleans.
    word = str(value).strip().lower() if isinstance(value, str | bool) else ""
    label = _VERDICTS.get(word, word)
    if label not in LABELS:
        raise RowError("unknown_label", f"the label is {kind_of(value)}; expected one of {', '.join(LABELS)}")
    return label
