"""Result files of any RAG: questions with the answers that it gave, from JSON lines, JSON, CSV or Parquet.

A file has one shape, which its first row with a question (or an id) and an answer decides: the plain one, or that of
ragas, deepeval, LangSmith, Phoenix or RAGFlow, by the names that their exports have. `columns` names other ones. A name
may be a path into objects (`outputs.answer`), and an object of one entry stands for its value.

Several files are paired on their questions (`found`): by id, else by the comparable form of the text.
A question that one of them lacks, and a row that cannot be used, is a Reject that names its file and row.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from vitalfew.tasks.comparable import comparable
from vitalfew.tasks.datasets.base import DatasetOptions, InputError, Question, Record, Reject
from vitalfew.tasks.datasets.delimited import Dialect, columns_of, delimited_rows
from vitalfew.tasks.datasets.files import FileDataset, check_source, open_source
from vitalfew.tasks.datasets.rows import (
    Row,
    RowError,
    answers_of,
    json_lines,
    kind_of,
    object_of,
    opens_with,
    stream_json,
    text_of_scalar,
    written_in,
)
from vitalfew.tasks.datasets.tables import BATCH_ROWS, rows_of

Names = Mapping[str, tuple[str, ...]]
"""By field of `Result`, the names of the columns that may hold it; `mark`: what a row of the shape has besides."""

NUMBERS: Names = {
    "prompt_tokens": (
        "prompt_tokens",
        "tokens",
        "total_tokens",
        "input_token_count",
        "attributes.llm.token_count.prompt",
    ),
    "completion_tokens": ("completion_tokens", "output_token_count", "attributes.llm.token_count.completion"),
    "usd": ("usd", "cost", "total_cost", "tokenCost", "token_cost"),
    "seconds": ("seconds", "latency", "execution_time", "completionTime", "completion_time"),
}
SHAPES: dict[str, Names] = {
    "ragas": {
        "question": ("user_input",),
        "answer": ("response",),
        "contexts": ("retrieved_contexts",),
        "gold": ("reference",),
    },
    "deepeval": {
        "question": ("input",),
        "answer": ("actual_output", "actualOutput"),
        "contexts": ("retrieval_context", "retrievalContext"),
        "gold": ("expected_output", "expectedOutput"),
    },
    "RAGFlow": {
        "mark": ("reference.chunks",),
        "question": ("question",),
        "answer": ("answer",),
        "contexts": ("reference.chunks",),
        "gold": ("reference_answer",),
    },
    "LangSmith": {
        "id": ("example_id",),
        "question": ("inputs.question", "inputs.input", "inputs.query", "inputs"),
        "answer": ("outputs.answer", "outputs.output", "outputs"),
        "contexts": ("outputs.contexts", "outputs.context", "outputs.documents"),
        "gold": ("reference.answer", "reference.output", "reference", "reference_outputs.answer", "reference_outputs"),
    },
    "Phoenix (spans)": {
        "id": ("context.span_id",),
        "question": ("attributes.input.value",),
        "answer": ("attributes.output.value",),
        "contexts": ("attributes.retrieval.documents",),
    },
    "Phoenix": {
        "id": ("example_id", "context.span_id"),
        "question": ("input.question", "input.input", "input"),
        "answer": ("output.answer", "output.output", "output"),
        "contexts": ("reference", "output.contexts"),
        "gold": ("expected.answer", "expected", "reference_output"),
    },
    "plain": {
        "id": ("id", "question_id"),
        "question": ("question", "query"),
        "answer": ("answer", "response", "result"),
        "contexts": ("contexts", "context", "documents", "source_documents"),
        "gold": ("gold", "answers", "ground_truth", "ground_truths", "reference"),
    },
}
"""The shapes, the first that fits is taken. Sources: the tools' own exports, see docs/how_to/other_rags.md."""
JOINED = {"deepeval": "|"}
"""What a shape puts between contexts in a file that has no lists. A context that has it is cut there."""
_TEXTS = ("text", "content", "page_content", "document.content", "document", "content_with_weight", "kwargs")
"""The names under which an object holds the text of a context."""
LARGEST_OBJECT = 64 << 20
"""Bytes of a JSON file that is one object: it is read as a whole."""


@dataclass(frozen=True, slots=True)
class Result:
    """An answer that a system gave. `contexts`: None where the file has no such column, as for the numbers; `error`:
    why there is no answer, else empty. `number`: the row, from 1."""

    number: int
    question: str = ""
    id: str = ""
    answer: str = ""
    contexts: tuple[str, ...] | None = None
    gold: tuple[str, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None
    error: str = ""

    @property
    def keys(self) -> Iterator[str]:
        """Yield the keys by which the question is found."""
        return question_keys(self.id, self.question)


def question_keys(name: str, text: str) -> Iterator[str]:
    """The keys of a question: its id and its text, as far as they are there."""
    if name:
        yield f"id {name}"
    if text:
        yield f"text {comparable(text).casefold()}"


def found(known: Mapping[str, Result], name: str, text: str) -> Result | None:
    """The result for a question, of those by their keys. Where an id leads to another text than the question's, and its
    text to a result, the ids are those of rows, not of questions: the text decides."""
    mates = [known[key] for key in question_keys(name, text) if key in known]
    if len(mates) == 2 and mates[0].question and [*question_keys("", mates[0].question)] != [*question_keys("", text)]:
        return mates[1]
    return mates[0] if mates else None


class ResultFile:
    """A file of results. `shape`: the name of the shape that it has."""

    def __init__(self, path: Path, columns: str | None = None) -> None:
        """`columns`: the names of columns, as `question=prompt,answer=completion`. Raises InputError."""
        check_source(path)
        self.path = path
        self.shape, self.names, self._read = self._recognised(_columns(columns))
        self._has_commas = self._read is _delimited and _dialect(path).delimiter == ";"

    def results(self) -> Iterator[Result | tuple[int, Reject]]:
        """Stream the results, and rejects with the number of their rows. Raises InputError."""
        for number, row in self._read(self.path):
            try:
                yield self._result(nested(object_of(row)), number)
            except RowError as error:
                yield number, error.reject()

    def by_key(self) -> dict[str, Result]:
        """The results by each of `keys`; of several to a question the first."""
        found: dict[str, Result] = {}
        for result in self.results():
            if isinstance(result, Result):
                for key in result.keys:
                    found.setdefault(key, result)
        return found

    def _recognised(self, given: Names) -> tuple[str, Names, "Reader"]:
        """The name and the names of the shape, and how its rows are read. Raises InputError, which says what is there
        and what is expected."""
        present: dict[str, None] = {}
        broken = ""
        for read in _readers(self.path):
            for number, row in read(self.path):
                if isinstance(row, Reject) and not broken:
                    broken = f"Row {number:,} cannot be read: {row.detail}. "
                if isinstance(row, dict):
                    present |= dict.fromkeys(row)
                    whole = nested(row)
                    for shape, own in SHAPES.items():
                        names = {**NUMBERS, **own, **given}
                        if _fits(whole, names):
                            return shape, names, read
        shown = ", ".join(repr(name[:40]) for name in [*present][:20]) or "no rows of named values"
        raise InputError(
            f"{self.path}: no row has a question (or an id) and an answer under a name that is known; it has {shown}. "
            f"{broken}Known are question and answer, and the names of exports of "
            f"{', '.join(name for name in SHAPES if name != 'plain')}. Say which columns they are: "
            "--columns question=NAME,answer=NAME"
        )

    def _result(self, row: Row, number: int) -> Result:
        """Raises RowError."""
        text, name = self._text(row, "question"), self._text(row, "id")
        if not (text or name):
            raise RowError("empty_text", f"no question under {' or '.join(self.names['question'])}, and no id")
        answer, gold, contexts = (_at(row, self.names.get(field, ())) for field in ("answer", "gold", "contexts"))
        why = _at(row, ("error",))
        failed = f"the system failed: {why}" if why else NO_ANSWER
        return Result(
            number,
            question=text,
            id=name,
            answer=text_of_scalar(plain(answer), "the answer"),
            contexts=None if contexts is None else contexts_of(contexts, JOINED.get(self.shape)),
            gold=answers_of(plain(gold), "gold answer"),
            prompt_tokens=_count(self._number(row, "prompt_tokens")),
            completion_tokens=_count(self._number(row, "completion_tokens")),
            usd=self._number(row, "usd"),
            seconds=self._number(row, "seconds"),
            error="" if answer is not None else failed,
        )

    def _number(self, row: Row, field: str) -> float | None:
        given = _at(row, self.names[field])
        if self._has_commas and isinstance(given, str) and "," in given:  # 1.234,50, as such files have it
            given = given.replace(".", "").replace(",", ".")
        return _number(given, field.replace("_", " "))

    def _text(self, row: Row, field: str) -> str:
        return text_of_scalar(plain(_at(row, self.names.get(field, ()))), f"the {field}").strip()


NO_ANSWER = "the file has no answer to this question"


def _count(number: float | None) -> int | None:
    return None if number is None else round(number)


def _number(given: Any, what: str) -> float | None:
    """Raises RowError for what is no number from 0 on."""
    if given in (None, ""):
        return None
    try:
        number = float(given)
    except (TypeError, ValueError):
        raise RowError("wrong_type", f"{what}: {kind_of(given)}; expected a number") from None
    if math.isnan(number):  # as pandas writes what is missing
        return None
    if not 0 <= number < MOST:
        raise RowError("wrong_type", f"{what}: {number:g}; expected a number from 0 to {MOST:,}")
    return number


MOST = 1 << 30


def contexts_of(given: Any, joined: str | None = None) -> tuple[str, ...]:
    """The texts of contexts: of a list, of a list that is written in a string, or of one text, in which `joined` may
    stand between several. Raises RowError."""
    given = written_in(given, "context") if isinstance(given, str) else given
    if isinstance(given, str) and joined:
        given = given.split(joined)
    entries = given if isinstance(given, list) else [given]
    texts = (text_of_scalar(_text_in(entry), f"context {place}") for place, entry in enumerate(entries, start=1))
    return tuple(text for text in texts if text)


def _text_in(entry: Any) -> Any:
    """The text of a context that may be an object."""
    while isinstance(entry, dict):
        entry = next((value for name in _TEXTS if (value := _at(entry, (name,))) is not None), None)
    return entry


def plain(given: Any) -> Any:
    """The value for which an object of one entry stands, which may be written in a string."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        with suppress(ValueError):
            given = json.loads(given)
    while isinstance(given, dict) and len(given) == 1:
        [given] = given.values()
    return given


def _at(row: Row, names: Iterable[str]) -> Any:
    """The value at the first of these names or paths that the row has; None without any of them, and for NaN."""
    for name in names:
        value: Any = row
        for key in (name,) if name in row else name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None and value == value:
            return value
    return None


def nested(row: Row) -> Row:
    """A row whose columns with dots in their names (`outputs.answer`) are objects too."""
    whole = dict(row)
    for name, value in row.items():
        *above, last = name.split(".")
        place: Any = whole
        for key in above:
            place = place.setdefault(key, {}) if isinstance(place, dict) else None
        if above and isinstance(place, dict):
            place.setdefault(last, value)
    return whole


def _fits(row: Row, names: Names) -> bool:
    """Return whether a row has an answer, what it answers, and what marks its shape."""
    there = {field for field, own in names.items() if _at(row, own) is not None}
    return "answer" in there and bool(there & {"question", "id"}) and ("mark" in there or "mark" not in names)


def _columns(given: str | None) -> Names:
    """Raises InputError."""
    pairs = [part.partition("=") for part in (given or "").split(",") if part]
    known = ("question", "id", "answer", "contexts", "gold", *NUMBERS)
    if wrong := [key for key, _, name in pairs if key not in known or not name]:
        raise InputError(f"columns: {wrong[0]!r} must be one of {', '.join(known)}, with a name: question=prompt")
    return {key: (name,) for key, _, name in pairs}


Reader = Callable[[Path], Iterator[tuple[int, Any]]]
"""Streams (number, row) of a file. Raises InputError."""


def _readers(path: Path) -> tuple[Reader, ...]:
    """How a file may be read, by its name or its first character. Raises InputError."""
    ending = path.suffix.lower()
    if ending in (".xlsx", ".xls", ".ods"):
        raise InputError(f"{path}: a workbook is not read. Save its sheet as CSV (UTF-8)")
    if ending in (".parquet", ".pq"):
        return (_parquet,)
    if ending in (".csv", ".tsv"):
        return (_delimited,)
    if opens_with(path, rb"\["):
        return (partial(stream_json, expects="an array of results"),)
    return (json_lines, _in_object) if opens_with(path, rb"\{[^\n]*\}\s*(\n|$)") else (_in_object, json_lines)


def _delimited(path: Path) -> Iterator[tuple[int, Any]]:
    return delimited_rows(path, _dialect(path))


def _dialect(path: Path) -> Dialect:
    """The one by whose delimiter the first row names the most columns."""
    return max((Dialect(mark) for mark in ",\t;"), key=lambda each: len(_header(path, each)))


def _header(path: Path, dialect: Dialect) -> tuple[str, ...]:
    try:
        return columns_of(path, dialect)
    except InputError:
        return ()


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        batches = pq.ParquetFile(path, page_checksum_verification=True).iter_batches(BATCH_ROWS)
        yield from enumerate(chain.from_iterable(map(rows_of, batches)), start=1)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: not readable as Parquet ({str(error)[:200]}). Write it again") from error


def _in_object(path: Path) -> Iterator[tuple[int, Any]]:
    """The rows of the longest list of objects in a JSON file that is one object. Raises InputError."""
    with open_source(path) as source:
        raw = source.read(LARGEST_OBJECT + 1)
    if len(raw) > LARGEST_OBJECT:
        raise InputError(f"{path}: an object of more than {LARGEST_OBJECT:,} bytes; write one JSON object a line")
    try:
        lists = [*_lists(json.loads(raw))]
    except (ValueError, RecursionError):  # no JSON: perhaps JSON lines, of which the first are broken
        return iter(())
    longest: list[Any] = max(lists, key=len, default=[])
    return enumerate(longest, start=1)


def _lists(value: Any) -> Iterator[list[Any]]:
    """Every list of objects, the outermost first."""
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _lists(each)


class Recorded(FileDataset):
    """Questions of a file of results that any RAG wrote, with the gold answers that it has; no passages.

    JSON lines, JSON, CSV or Parquet with `question` (or `id`), `answer`, and if they are there `contexts`, `gold`,
    `tokens`, `usd` and `seconds`; or an export of ragas, deepeval, LangSmith, Phoenix or RAGFlow. With paired=, the
    questions that all files have: others are rejected ("left_out"), and the gold answers are those of the first file
    that has some. The offset is the row.
    """

    example: ClassVar[str] = "recorded:ours.jsonl?paired=theirs.csv"
    has_passages: ClassVar[bool] = False

    class Options(DatasetOptions):
        paired: str | None = Field(
            None,
            min_length=1,
            description="further files, separated by commas: only questions that all of them have are read",
        )
        columns: str | None = Field(
            None, min_length=1, description="names of columns, as question=prompt,answer=completion.text"
        )

    options: Options

    def files(self) -> list[Path]:
        further = (self.options.paired or "").split(",")
        paths = [self.source(), *(Path(path).expanduser().absolute() for path in further if path)]
        for path in paths:
            check_source(path)
        return paths

    def records(self) -> Iterator[tuple[int, Record]]:
        first, *others = (ResultFile(path, self.options.columns) for path in self.files())
        theirs = [(file, file.by_key()) for file in others]
        known = set[str]()
        for result in first.results():
            if isinstance(result, Result):
                yield result.number, _question(result, theirs)
                known.update(result.keys)
            else:
                yield result
        for file in others:
            for result in file.results():
                if not isinstance(result, Result):
                    yield result[0], replace(result[1], detail=f"{file.path.name}: {result[1].detail}")
                elif known.isdisjoint(result.keys):
                    yield result.number, _lacking(result, file.path, first.path)


def _question(result: Result, theirs: Sequence[tuple[ResultFile, Mapping[str, Result]]]) -> Record:
    """The question of a row, with the gold answers that a file has first; a Reject where a file lacks it."""
    text, gold, name = result.question, result.gold, result.id
    for file, known in theirs:
        other = found(known, name, text)
        if other is None:
            return _lacking(result, None, file.path)
        text, gold, name = text or other.question, gold or other.gold, name or other.id
    return Question(text or name, gold, source_id=name)


def _lacking(result: Result, place: Path | None, lacks: Path) -> Reject:
    """`place`: the file of the row, if it is not the first."""
    what = f"{place.name}: " if place else ""
    return Reject("left_out", f"{what}{lacks.name} has no answer to {(result.question or result.id)[:200]!r}")
