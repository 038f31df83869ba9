"""TriviaQA: trivia questions with the aliases of their answers.

Format: the JSON of the official release (version 1.0, `qa/*.json` and `unfiltered-web-*.json` of triviaqa-rc and
triviaqa-unfiltered), Joshi et al., ACL 2017 (arXiv 1705.03551). Its evidence documents are separate files, which
`EntityPages` and `SearchResults` name: this module does not read them.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from vitalfew.tasks.datasets.base import InputError, Question, Record
from vitalfew.tasks.datasets.files import (
    FileDataset,
    check_text,
    id_of,
    list_of,
    object_of,
    stream_json,
    text_of,
)
from vitalfew.tasks.datasets.rows import records_of

_EXPECTS = 'the JSON of TriviaQA: {"Data": [{"Question", "QuestionId", "Answer"}, ...]}'


class TriviaQA(FileDataset):
    """Questions of TriviaQA with their gold answers; no passages.

    An object {"Data": [{"Question", "QuestionId", "Answer": {"Value", "Aliases": [...]}}]}, with evidence or without
    (unfiltered-nocontext). The gold answers are the value, its aliases and "HumanAnswers" if people answered too: what
    the official evaluation accepts, without normalisation. Blank aliases are skipped; the questions of a test file have
    no answers. The offset is the record number.
    """

    example: ClassVar[str] = "triviaqa:data/qa/wikipedia-dev.json"
    has_passages: ClassVar[bool] = False

    def records(self) -> Iterator[tuple[int, Record]]:
        number = 0
        for number, record in records_of(stream_json(self.source(), _EXPECTS, "Data"), _question):
            yield number, record
        if number == 0:
            raise InputError(f'{self.source()} has no questions in a top-level "Data": this format expects {_EXPECTS}')


def _question(entry: object) -> Iterator[Question]:
    """Yield the question of one entry. Raises RowError."""
    fields = object_of(entry)
    answer = fields.get("Answer")
    yield Question(
        text=text_of(fields, "Question"),
        answers=() if answer is None else _answers(object_of(answer)),
        source_id=id_of(fields, "QuestionId"),
    )


def _answers(answer: dict[str, Any]) -> tuple[str, ...]:
    """Return the unique answers: the value, then its aliases, then what people answered. Raises RowError."""
    answers = [text_of(answer, "Value")]
    for key in ("Aliases", "HumanAnswers"):
        aliases = list_of(answer, key) if key in answer else []
        answers += [check_text(alias, f"{key}[{index}]", blank=True) for index, alias in enumerate(aliases)]
    return tuple(dict.fromkeys(filter(None, answers)))
