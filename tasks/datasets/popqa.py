"""PopQA: questions about entities of every popularity, generated from Wikidata by templates.

Format: the TSV of the release (`popQA.tsv`; `test.tsv` of akariasai/PopQA on the Hugging Face hub), Mallen et al., ACL
2023 (arXiv 2212.10511), in which a field that holds quotes, such as a JSON list, is quoted. Also the JSON lines
derived from it: Self-RAG's `popqa_longtail_w_gs.jsonl` (arXiv 2310.11511) and FlashRAG's (arXiv 2405.13576).
"""

import json
import math
from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from vitalfew.tasks.datasets.base import DatasetOptions, Question, Record, Reject
from vitalfew.tasks.datasets.files import FileDataset, RowError, id_of, kind_of, text_of, value_of
from vitalfew.tasks.datasets.rows import answers_of, records_of, tsv_or_json_lines

_ANSWERS = ("possible_answers", "answers", "golden_answers")


class PopQAOptions(DatasetOptions):
    """Which questions to ask."""

    max_views: int | None = Field(
        default=None,
        ge=1,
        description="keep questions on entities with fewer page views a month (s_pop) than this; the long tail of "
        "Self-RAG's evaluation is below 100",
    )


class PopQA(FileDataset):
    """Questions of PopQA with their gold answers; no passages.

    Tab-separated; the first line names the columns. Of these, "id", "question" and "possible_answers" (a JSON list) are
    used, and the others ("subj", "prop", "obj", "s_pop", "o_pop", ...) skipped. Or one JSON object a line with the same
    keys and the answers as a list, or as a JSON list in a string, at "possible_answers", "answers" or "golden_answers".
    With max_views=100, questions on entities with 100 page views a month or more ("s_pop") are rejected ("left_out"),
    which leaves the long tail. The offset is the line.
    """

    example: ClassVar[str] = "popqa:data/popQA.tsv"
    has_passages: ClassVar[bool] = False
    Options: ClassVar[type[DatasetOptions]] = PopQAOptions
    options: PopQAOptions

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(tsv_or_json_lines(self.source()), self._record)

    def _record(self, row: dict[str, Any]) -> Iterator[Record]:
        """Yield the question of one row, or a Reject if the options leave it out. Raises RowError."""
        limit = self.options.max_views
        if limit is not None and (views := _views(row)) >= limit:
            yield Reject("left_out", f"max_views={limit} leaves out an entity of {views:g} page views a month")
        else:
            yield from _question(row)


def _question(row: dict[str, Any]) -> Iterator[Question]:
    """Yield the question of one row. Raises RowError."""
    key = next((key for key in _ANSWERS if key in row), _ANSWERS[0])
    yield Question(
        text=text_of(row, "question"),
        answers=answers_of(_list(value_of(row, key), key)),
        source_id=id_of(row, "id"),
    )


def _views(row: dict[str, Any]) -> float:
    """Return the page views a month of the question's entity. Raises RowError."""
    value = value_of(row, "s_pop")
    try:
        views = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        views = math.nan
    if not math.isfinite(views):
        raise RowError("wrong_type", f"'s_pop' holds {kind_of(value)}; expected a number of page views")
    return views


def _list(value: object, key: str) -> list[Any]:
    """Return the list that a column holds as a list or as JSON. Raises RowError."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RowError("malformed_json", f"{key!r} is not a JSON list: {str(error)[:120]}") from error
    if not isinstance(value, list):
        raise RowError("wrong_type", f"{key!r} holds {kind_of(value)}; expected a list")
    return value
