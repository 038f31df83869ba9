"""PopQA: questions about entities of every popularity, made from Wikidata by templates.

Format: the TSV of the release (`popQA.tsv`; `test.tsv` of akariasai/PopQA on the Hugging Face hub), Mallen et al., ACL
2023 (arXiv 2212.10511), in which a field that holds quotes, as lists in JSON do, is quoted. And the JSON lines that
were made of it: Self-RAG's `popqa_longtail_w_gs.jsonl` (arXiv 2310.11511) and FlashRAG's (arXiv 2405.13576).
"""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from tasks.datasets.base import Question, Record
from tasks.datasets.files import FileDataset, RowError, id_of, kind_of, text_of, value_of
from tasks.datasets.rows import answers_of, records_of, tsv_or_json_lines

_ANSWERS = ("possible_answers", "answers", "golden_answers")


class PopQA(FileDataset):
    """Questions of PopQA with their gold answers; no passages.

    Tab-separated, the first line naming the columns: "id", "question" and "possible_answers" (a list in JSON) are used,
    the others ("subj", "prop", "obj", "s_pop", "o_pop", ...) passed over. Or one JSON object a line with the same keys,
    the answers a list, or a list in JSON, at "possible_answers", "answers" or "golden_answers". The offset is the line.
    """

    example: ClassVar[str] = "popqa:data/popQA.tsv"
    has_passages: ClassVar[bool] = False

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(tsv_or_json_lines(self.source()), _question)


def _question(row: dict[str, Any]) -> Iterator[Question]:
    """The question of one row. Raises RowError."""
    key = next((key for key in _ANSWERS if key in row), _ANSWERS[0])
    yield Question(
        text=text_of(row, "question"),
        answers=answers_of(_list(value_of(row, key), key)),
        source_id=id_of(row, "id"),
    )


def _list(value: object, key: str) -> list[Any]:
    """The list that a column holds, as it is or in JSON. Raises RowError."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RowError("malformed_json", f"{key!r} is no list in JSON: {str(error)[:120]}") from error
    if not isinstance(value, list):
        raise RowError("wrong_type", f"{key!r} holds {kind_of(value)}, a list is due")
    return value
