"""Questions as a data set that an evaluation can read, again and after a kill: those of a program (a list, a frame),
and those that were written from a corpus."""

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.files.directory import user_cache
from vitalfew.tasks.datasets.base import InputError

if TYPE_CHECKING:
    import polars as pl


class QuestionSet:
    """Questions that were written from the passages of an index: `store.evaluate(…, questions=…)` asks them."""

    def __init__(self, name: str, artifact: Artifact) -> None:
        """`artifact`: it has `written_questions` and `rejects`, and is complete."""
        self.name, self._artifact = name, artifact

    @property
    def dataset(self) -> str:
        """`written:NAME`, wherever a data set of questions is named; the latest set of that name."""
        return f"written:{self.name}"

    @cached_property
    def _questions(self) -> "pl.DataFrame":
        import polars as pl

        frame = pl.from_arrow(self._artifact.read(0, "written_questions"))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def pl(self) -> "pl.DataFrame":
        """A row per question: half, kind, text, answers, quote, passage_id, document and others."""
        return self._questions

    @cached_property
    def refused(self) -> dict[str, int]:
        """How many passages gave no question, by reason, the most frequent first."""
        from vitalfew.tasks.write import reasons_of

        return dict(reasons_of(self._artifact.read(0, "rejects")))

    def __len__(self) -> int:
        return len(self._questions)

    def __repr__(self) -> str:
        return f"QuestionSet({self.dataset!r}, {len(self):,} questions)"

    def _repr_html_(self) -> str:
        return self._questions.select("half", "kind", "text", "answers", "document")._repr_html_()


def dataset_of(questions: Any) -> str:
    """Return FORMAT:PATH of questions. A list or a frame is written to the user's cache, under its own checksum.

    Raises InputError, which names the row, and NotWritten.
    """
    if isinstance(questions, str):
        return questions
    if isinstance(questions, QuestionSet):
        return questions.dataset
    lines = [json.dumps(_row(number, row), ensure_ascii=False) for number, row in enumerate(_rows(questions), 1)]
    if not lines:
        raise InputError("there are no questions in what was given; give at least one")
    content = "\n".join(lines) + "\n"
    name = blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    folder = user_cache()
    if folder is None:
        raise InputError("there is no folder for caches of this user; write the questions to a file: jsonl:FILE")
    path = folder / "questions" / f"{name}.jsonl"
    if not path.exists():
        files.write_text(path, content)
    return f"jsonl:{path}"


def _rows(questions: Any) -> Iterable[Any]:
    """The rows of a list, a Polars frame or a pandas frame."""
    if hasattr(questions, "to_dicts"):  # Polars
        return questions.to_dicts()
    if hasattr(questions, "to_dict") and hasattr(questions, "columns"):  # pandas
        return questions.to_dict("records")
    if isinstance(questions, Mapping) or not isinstance(questions, Iterable):
        raise InputError(f"questions: give a data set (FORMAT:PATH), a list or a frame, got {type(questions).__name__}")
    return questions


def _row(number: int, row: Any) -> dict[str, Any]:
    if isinstance(row, str):
        return {"question": row, "answers": []}
    if not isinstance(row, Mapping) or not isinstance(row.get("question"), str):
        raise InputError(f"questions, row {number}: give a text, or `question` and `answers`, got {repr(row)[:100]}")
    answers = [] if (given := row.get("answers")) is None else given
    return {"question": row["question"], "answers": [answers] if isinstance(answers, str) else [*map(str, answers)]}
