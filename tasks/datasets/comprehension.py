"""Questions with the passages they are asked about: HotpotQA, SQuAD, MS MARCO QA and the contexts of other tools.

HotpotQA and 2WikiMultihopQA: questions with ten passages per question and sentence-level supporting facts. Yang et al.,
"HotpotQA", EMNLP 2018 (arXiv 1809.09600), section 3; 2WikiMultihopQA (arXiv 2011.01060) uses the same format. One
deviation: two sentences that meet without white space are joined by a space, because 2WikiMultihopQA drops the space at
the start of a sentence.

SQuAD v1.1 and v2.0: Wikipedia paragraphs with questions whose answers are spans of the paragraph. Rajpurkar et al.,
"SQuAD", EMNLP 2016 (arXiv 1606.05250). Two deviations: a paragraph loses its outer white space and the spans move with
it, so that the same text has the same id in every format; and the unanswerable questions of v2.0 are kept, with no
answers.

ctxs: questions with contexts that another tool retrieved for them. The JSON that DPR's retriever writes (Karpukhin et
al., EMNLP 2020, arXiv 2004.04906) and the JSON lines of Self-RAG's evaluation (Asai et al., arXiv 2310.11511); "isgold"
comes from the data of "Lost in the Middle" (Liu et al., arXiv 2307.03172). The retriever `run_file` reads the order of
the contexts from the same file. "has_answer" makes no gold passage: it says that an answer's words are in a context,
not that the context answers.

MS MARCO question answering: questions with the answers that people wrote from ten passages of a search engine. Version
2.1 (`train_v2.1.json`, `dev_v2.1.json`, `eval_v2.1_public.json`), Bajaj et al., "MS MARCO" (arXiv 1611.09268), and rows
of the same fields, one a line, with the passages as a list of objects or, as on the Hugging Face hub, as an object of
lists. Passage ranking (`msmarco`) has the same questions without answers. The official files are objects of columns,
each an object of all rows: {"answers": {"0": …}, "passages": {"0": …}, …}. Every column is read by a cursor of its own,
so that memory holds one row, whatever the order of the columns.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import DatasetOptions, InputError, Passage, Question, Record, Reject, Span
from vitalfew.tasks.datasets.files import open_source
from vitalfew.tasks.datasets.json_stream import BrokenJson, JsonReader
from vitalfew.tasks.datasets.rows import (
    Row,
    RowDataset,
    RowError,
    answers_of,
    attempt,
    check_text,
    each_of,
    id_of,
    json_lines,
    json_rows,
    kind_of,
    list_of,
    object_of,
    stream_json,
    text_of,
    value_of,
)


class _Context(NamedTuple):
    """A passage of a question, with one span per sentence (None: the sentence is blank)."""

    title: str
    passage: Passage
    spans: tuple[Span | None, ...]


class HotpotQA(RowDataset):
    """Questions of HotpotQA or 2WikiMultihopQA with their passages and supporting facts.

    A JSON array of {"question", "answer", "context": [[title, [sentence, ...]], ...], "supporting_facts": [[title,
    sentence index], ...], "_id"}. A question's passages come before it. The published data has supporting facts that
    are not in the question's context: they are skipped, and a question without any other is rejected.
    """

    example: ClassVar[str] = "hotpotqa:data/hotpot_dev_distractor_v1.json"

    def rows(self) -> Iterator[tuple[int, Any]]:
        return stream_json(self.source(), "a JSON array of HotpotQA questions")

    def read(self, row: Row, number: int) -> Iterator[Record]:
        by_title: dict[str, _Context] = {}
        for context in each_of(row, "context", _hotpot_context):
            if isinstance(context, Reject):
                yield context
            else:
                by_title.setdefault(context.title, context)
                yield context.passage
        yield attempt("question", _hotpot_question, row, by_title)


def _hotpot_context(entry: object) -> _Context:
    """Read one [title, [sentence, ...]] entry. Raises RowError."""
    if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], list)):
        raise RowError("wrong_type", f"{kind_of(entry)} instead of [title, [sentence, ...]]")
    title = check_text(entry[0], "the title", blank=True, strip=False)
    sentences = [
        check_text(sentence, f"sentence {index}", blank=True, strip=False) for index, sentence in enumerate(entry[1])
    ]
    text, ranges = join_sentences(sentences)
    if not text:
        raise RowError("empty_text", f"the passage {title[:80]!r} is blank")
    passage = passage_id(text)
    spans = tuple(Span(passage, start, end) if end > start else None for start, end in ranges)
    return _Context(title, Passage(title.strip(), text, title.strip()), spans)


def hotpotqa_texts(row: Row) -> list[str]:
    """Return the texts of a row's passages, without those that cannot be read. Raises RowError."""
    contexts = each_of(row, "context", _hotpot_context)
    return [context.passage.text for context in contexts if not isinstance(context, Reject)]


def join_sentences(sentences: list[str]) -> tuple[str, list[tuple[int, int]]]:
    """Join sentences to a passage; return it and the range of every sentence in it.

    A range leaves out the sentence's outer white space; a blank sentence has an empty range. A space joins sentences
    that meet without white space.
    """
    parts: list[str] = []
    ranges: list[tuple[int, int]] = []
    length, glued = 0, False
    for sentence in sentences:
        if parts and sentence and glued and not sentence[0].isspace():
            parts.append(" ")
            length += 1
        # The passage does not keep white space before its first word, so the ranges must not count it either.
        kept = sentence if parts else sentence.lstrip()
        core = kept.strip()
        start = length + len(kept) - len(kept.lstrip()) if core else length
        ranges.append((start, start + len(core)))
        if kept:
            parts.append(kept)
            length += len(kept)
            glued = not kept[-1].isspace()
    return "".join(parts).rstrip(), ranges


def _hotpot_question(row: Row, by_title: dict[str, _Context]) -> Question:
    """Return the question of a row. Raises RowError."""
    text, answer, facts = text_of(row, "question"), text_of(row, "answer"), list_of(row, "supporting_facts")
    spans = [span for fact in facts if (span := _fact_span(fact, by_title)) is not None]
    if facts and not spans:
        raise RowError("no_gold_passage", f"none of its {len(facts)} supporting facts is in its context")
    gold = tuple(dict.fromkeys(span.passage_id for span in spans))
    return Question(text, (answer,), gold, tuple(dict.fromkeys(spans)), id_of(row, "_id" if "_id" in row else "id"))


def _fact_span(fact: object, by_title: dict[str, _Context]) -> Span | None:
    """Return the span of a [title, sentence index] fact; None if the context has no such sentence. Raises RowError."""
    if not (isinstance(fact, list) and len(fact) == 2 and isinstance(fact[0], str) and type(fact[1]) is int):
        raise RowError("wrong_type", f"a supporting fact is {kind_of(fact)}; expected [title, sentence index]")
    title, index = fact
    context = by_title.get(title)
    # A negative index would count from the end and give a sentence that the fact does not mean.
    if context is None or not 0 <= index < len(context.spans):
        return None
    return context.spans[index]


class Squad(RowDataset):
    """Paragraphs and questions of SQuAD v1.1 or v2.0.

    An object {"data": [{"title", "paragraphs": [{"context", "qas": [...]}]}]}, where an entry of "qas" is {"id",
    "question", "answers": [{"text", "answer_start"}]}; underscores in titles become spaces. A paragraph comes before
    its questions. The record number is the article's. The supporting facts are the spans of the answers as given:
    `answer_start` is often the first mention of an answer instead of the intended one.
    """

    example: ClassVar[str] = "squad:data/dev-v1.1.json"

    def rows(self) -> Iterator[tuple[int, Any]]:
        return stream_json(
            self.source(), 'the JSON of SQuAD: {"data": [{"title", "paragraphs"}, ...]}', "data", "articles"
        )

    def read(self, row: Row, number: int) -> Iterator[Record]:
        title = text_of(row, "title", blank=True).replace("_", " ").strip()
        for place, paragraph in enumerate(list_of(row, "paragraphs")):
            where = f"paragraphs[{place}]"
            try:
                fields = object_of(paragraph)
                context = attempt(where, text_of, fields, "context", strip=False)
                yield context if isinstance(context, Reject) else Passage(title, context.strip(), f"{title}#{place}")
                yield from each_of(fields, "qas", _squad_question, context, where=f"{where}.")
            except RowError as error:
                yield error.reject(where)


def _squad_question(entry: object, context: str | Reject) -> Question:
    """Return the question of an entry on a paragraph as the file has it, to which offsets refer. Raises RowError."""
    fields = object_of(entry)
    text = text_of(fields, "question")
    if isinstance(context, Reject):
        raise RowError("no_gold_passage", "its paragraph was rejected")
    passage, left_out = passage_id(context.strip()), len(context) - len(context.lstrip())
    answers, spans = dict[str, None](), dict[Span, None]()
    for given in map(object_of, list_of(fields, "answers")):
        answer = check_text(value_of(given, "text"), "the text of an answer", strip=False)
        start = value_of(given, "answer_start")
        if type(start) is not int:
            raise RowError("wrong_type", f"'answer_start' is {kind_of(start)}; expected an integer")
        answers[answer.strip()] = None
        # An answer may not stand at its offset; a negative one would count from the end.
        if start >= 0 and context.startswith(answer, start):
            first = start + len(answer) - len(answer.lstrip()) - left_out
            spans[Span(passage, first, first + len(answer.strip()))] = None
    return Question(text, tuple(answers), (passage,), tuple(spans), id_of(fields, "id"))


_CTXS_EXPECTS = 'a JSON array, or one object a line, of {"question", "answers", "ctxs": [{"title", "text"}, ...]}'
_CTXS_ANSWERS = ("answers", "possible_answers", "golden_answers", "answer", "output")


class Ctxs(RowDataset):
    """Questions with contexts that were retrieved for them. The contexts become the passages of the corpus.

    A JSON array, or one object per line, of {"question", "answers", "id", "ctxs": [{"id", "title", "text", "isgold"},
    ...]}. The question, "ctxs" and the text of every context are required. The gold answers are a string, a list, or a
    JSON list in a string, at "answers", "possible_answers", "golden_answers", "answer" or "output". The gold passages
    are the contexts whose "isgold" is true. A context without an id gets the name of its row and its position, "7#0".
    The name of a row is its id, or its number if it has no id. A question's contexts come before it. The offset is the
    line or the record number.
    """

    example: ClassVar[str] = "ctxs:data/nq-dev-contexts.jsonl"

    def rows(self) -> Iterator[tuple[int, Any]]:
        return json_rows(self.source(), _CTXS_EXPECTS)

    def read(self, row: Row, number: int) -> Iterator[Record]:
        name, gold = id_of(row, "id"), list[int | None]()
        for place, entry in enumerate(list_of(row, "ctxs")):
            passage = attempt(f"ctxs[{place}]", _ctxs_passage, entry, f"{name or number}#{place}")
            if isinstance(entry, dict) and entry.get("isgold") is True:
                gold.append(passage_id(passage.text) if isinstance(passage, Passage) else None)
            yield passage
        yield attempt("question", _ctxs_question, row, name, gold)


def _ctxs_passage(entry: object, name: str) -> Passage:
    """Return a context as a passage, `name` where it has no id. Raises RowError."""
    context = object_of(entry)
    if not isinstance(is_gold := context.get("isgold"), bool | None):
        raise RowError("wrong_type", f"'isgold' is {kind_of(is_gold)}; expected true or false")
    title = "" if context.get("title") is None else text_of(context, "title", blank=True)
    return Passage(title, text_of(context, "text"), id_of(context, "id") or name)


def _ctxs_question(row: Row, name: str, gold: list[int | None]) -> Question:
    """Return the question of a row; `gold` has None for a gold context that could not be read. Raises RowError."""
    text = text_of(row, "question")
    answers = answers_of(next((row[key] for key in _CTXS_ANSWERS if key in row), None))
    readable = tuple(dict.fromkeys(passage for passage in gold if passage is not None))
    if gold and not readable:
        raise RowError("no_gold_passage", f"none of its {len(gold)} gold contexts could be read")
    return Question(text, answers, readable, source_id=name)


NO_ANSWER = "No Answer Present."
_MSMARCO_COLUMNS = ("query", "query_id", "passages", "answers", "wellFormedAnswers")


class MSMarcoQA(RowDataset):
    """Questions of MS MARCO with the passages retrieved for them and the answers that people wrote.

    The JSON of question answering 2.1, compressed or not, or one object per line: {"query", "query_id", "answers":
    [...], "wellFormedAnswers": [...], "passages": [{"passage_text", "is_selected", "url"}, ...]}. A question's passages
    come before it. The selected passages are gold. "No Answer Present." does not count as a gold answer, so a question
    with this answer has no gold answers. The offset is the number of the row.
    """

    example: ClassVar[str] = "msmarco_qa:data/dev_v2.1.json.gz"

    class Options(DatasetOptions):
        well_formed: bool = Field(
            False,
            description="use the answers rewritten as whole sentences, if there are any; false: use the answers as "
            "first written",
        )

    options: Options

    def rows(self) -> Iterator[tuple[int, Any]]:
        return _column_rows(self.source()) if _has_columns(self.source()) else json_lines(self.source())

    def read(self, row: Row, number: int) -> Iterator[Record]:
        gold = []
        for place, entry in enumerate(_msmarco_passages(row.get("passages", []))):
            passage = attempt(f"passages[{place}]", _msmarco_passage, entry)
            yield passage
            if isinstance(passage, Passage) and entry.get("is_selected"):
                gold.append(passage_id(passage.text))
        text, answers = text_of(row, "query"), self._answers(row)
        yield Question(text, answers, tuple(dict.fromkeys(gold)), source_id=id_of(row, "query_id"))

    def _answers(self, row: Row) -> tuple[str, ...]:
        """Return the unique gold answers. Raises RowError."""
        key = "wellFormedAnswers" if self.options.well_formed and _given(row, "wellFormedAnswers") else "answers"
        given = list_of(row, key) if _given(row, key) else []
        answers = [check_text(answer, f"{key}[{place}]", blank=True) for place, answer in enumerate(given)]
        return tuple(answer for answer in dict.fromkeys(answers) if answer not in ("", NO_ANSWER))


def _given(fields: Row, key: str) -> bool:
    """Return whether there are answers; the official files write "[]", a text, where there are none."""
    return fields.get(key) not in (None, "[]", [])


def _msmarco_passages(passages: Any) -> Iterator[Row]:
    """Yield the passages as objects. Raises RowError."""
    if isinstance(passages, dict):
        columns = {key: list_of(passages, key) for key in ("passage_text", "is_selected", "url") if key in passages}
        for values in zip(*columns.values(), strict=False):
            yield dict(zip(columns, values, strict=True))
    else:
        yield from map(object_of, list_of({"passages": passages}, "passages"))


def _msmarco_passage(entry: Row) -> Passage:
    return Passage("", text_of(entry, "passage_text"), id_of(entry, "url"))


def _has_columns(path: Path) -> bool:
    """Return whether the first value of the document's object is an object: a column, not a field of a row."""
    with open_source(path) as source:
        reader = JsonReader(source)
        try:
            return next((reader.peek() == "{" for _ in reader.members()), False)
        except BrokenJson:
            return False  # json_lines then reports the broken line


def _column_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Stream (number, fields) of the rows of a file of columns. Raises InputError where it is broken."""
    number = 0
    with ExitStack() as opened:
        readers = {name: JsonReader(opened.enter_context(open_source(path))) for name in _MSMARCO_COLUMNS}
        columns = {name: reader.object_at(name) for name, reader in readers.items()}
        try:
            while cells := {name: cell for name, column in columns.items() if (cell := next(column, None))}:
                number += 1
                if len({key for key, _ in cells.values()}) > 1:
                    keys = ", ".join(f"{name}: {key}" for name, (key, _) in cells.items())
                    raise InputError(
                        f"{path}: row {number} has different keys in its columns ({keys}); download the file again"
                    )
                row = {name: value for name, (_, value) in cells.items()}
                yield number, next((value for value in row.values() if isinstance(value, Reject)), row)
        except BrokenJson as error:
            raise error.told(path, f"row {number}") from error
        if not number:
            raise InputError(f'{path} has no rows in a top-level "query": this format expects MS MARCO QA 2.1')
