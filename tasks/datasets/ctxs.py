"""Questions with contexts that another tool retrieved for them, as DPR and Self-RAG write them.

Format: the JSON that DPR's retriever writes (Karpukhin et al., EMNLP 2020, arXiv 2004.04906) and the JSON lines of
Self-RAG's evaluation (Asai et al., arXiv 2310.11511); "isgold" comes from the data of "Lost in the Middle" (Liu et al.,
arXiv 2307.03172). The retriever `run_file` reads the order of the contexts from the same file.

"has_answer" makes no gold passage: it says that an answer's words stand in a context, not that the context answers.
"""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import Passage, Question, Record
from vitalfew.tasks.datasets.files import FileDataset, RowError, id_of, kind_of, list_of, object_of, text_of
from vitalfew.tasks.datasets.rows import answers_of, json_rows

_EXPECTS = 'a JSON array, or one object a line, of {"question", "answers", "ctxs": [{"title", "text"}, ...]}'
_ANSWERS = ("answers", "possible_answers", "golden_answers", "answer", "output")


class Ctxs(FileDataset):
    """Questions with contexts that were retrieved for them. The contexts become the passages of the corpus.

    A JSON array, or one object per line, of {"question", "answers", "id", "ctxs": [{"id", "title", "text", "isgold"},
    ...]}. The question, "ctxs" and the text of every context are required. The gold answers are a string, a list, or a
    JSON list in a string, at "answers", "possible_answers", "golden_answers", "answer" or "output". The gold passages
    are the contexts whose "isgold" is true. A context without an id gets the name of its row and its position, "7#0".
    The name of a row is its id, or its number if it has no id. A question's contexts come before it. The offset is the
    line or the record number.
    """

    example: ClassVar[str] = "ctxs:data/nq-dev-contexts.jsonl"

    def records(self) -> Iterator[tuple[int, Record]]:
        for number, row in json_rows(self.source(), _EXPECTS):
            for record in _records_of(row, number):
                yield number, record


def _records_of(row: object, number: int) -> Iterator[Record]:
    """Yield the contexts of one row, then its question; a part that cannot be used becomes a Reject."""
    try:
        fields = object_of(row)
        name = id_of(fields, "id")
        entries = list_of(fields, "ctxs")
    except RowError as error:
        yield error.reject()
        return
    gold: list[int | None] = []
    for position, entry in enumerate(entries):
        is_gold = False
        try:
            context = object_of(entry)
            is_gold = _is_gold(context)
            passage = _passage(context, f"{name or number}#{position}")
        except RowError as error:
            gold += [None] * is_gold
            yield error.reject(f"ctxs[{position}]")
        else:
            gold += [passage_id(passage.text)] * is_gold
            yield passage
    try:
        yield _question(fields, name, gold)
    except RowError as error:
        yield error.reject("question")


def _is_gold(context: dict[str, Any]) -> bool:
    """Whether a context is said to be gold. Raises RowError."""
    value = context.get("isgold")
    if value is not None and not isinstance(value, bool):
        raise RowError("wrong_type", f"'isgold' is {kind_of(value)}; expected true or false")
    return bool(value)


def _passage(context: dict[str, Any], name: str) -> Passage:
    """Return a context as a passage, `name` where it has no id. Raises RowError."""
    title = "" if context.get("title") is None else text_of(context, "title", blank=True)
    return Passage(title, text_of(context, "text"), id_of(context, "id") or name)


def _question(fields: dict[str, Any], name: str, gold: list[int | None]) -> Question:
    """Return the question of a row; `gold` has None for a gold context that could not be read. Raises RowError."""
    text, answers = text_of(fields, "question"), _answers(fields)
    readable = tuple(dict.fromkeys(passage for passage in gold if passage is not None))
    if gold and not readable:
        raise RowError("no_gold_passage", f"none of its {len(gold)} gold contexts could be read")
    return Question(text, answers, readable, source_id=name)


def _answers(fields: dict[str, Any]) -> tuple[str, ...]:
    """Return the gold answers of a row; () where it has none. Raises RowError."""
    value = next((fields[key] for key in _ANSWERS if key in fields), None)
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RowError("malformed_json", f"the answers {value[:40]!r} are not a JSON list") from error
    return answers_of(value)
