"""Questions without passages, asked of another corpus: NQ-open, PopQA, TriviaQA, ARC and PubHealth.

NQ-open: questions that people asked Google, with short answers. The `NQ-open.*.jsonl` files of
google-research-datasets/natural-questions, the open-domain subset of Natural Questions by Lee et al. (ACL 2019, arXiv
1906.00300).

PopQA: questions about entities of every popularity, generated from Wikidata by templates. The TSV of the release
(`popQA.tsv`; `test.tsv` of akariasai/PopQA on the Hugging Face hub), Mallen et al., ACL 2023 (arXiv 2212.10511), in
which a field that holds quotes, such as a JSON list, is quoted. Also the JSON lines derived from it: Self-RAG's
`popqa_longtail_w_gs.jsonl` (arXiv 2310.11511) and FlashRAG's (arXiv 2405.13576).

TriviaQA: trivia questions with the aliases of their answers. The JSON of the official release (version 1.0, `qa/*.json`
and `unfiltered-web-*.json` of triviaqa-rc and triviaqa-unfiltered), Joshi et al., ACL 2017 (arXiv 1705.03551). Its
evidence documents are separate files, which `EntityPages` and `SearchResults` name: this module does not read them.

ARC: multiple-choice science questions of school exams. The JSON lines of the release (ARC-V1-Feb2018, ARC-Challenge and
ARC-Easy), Clark et al., 2018 (arXiv 1803.05457), and the flat rows into which the Hugging Face hub and Self-RAG turned
them. The options are part of the question's text. A bare label is no gold answer: nearly all outputs contain "A", and
the usual normalisation drops it as an article. Labels stay as the file has them (some are 1 to 4); Self-RAG renames
them, as the prompt `self_rag_multiple_choice` does. An output that names several options, or one whose words contain
those of the right one, counts as right; an output that gives only a label counts as wrong. So a prompt should ask for
the words of one option, or the metric be `choice`, which reads labels too.

PubHealth: claims about public health with the verdicts of fact checkers and their articles. The TSV of the release
(PUBHEALTH, train/dev/test.tsv), Kotonya & Toni, EMNLP 2020 (arXiv 2010.09926). Some of its rows lack a label or have
another column's text in its place. Also the JSON lines of Self-RAG's evaluation (`health_claims_processed.jsonl`),
which keeps the claims that are true or false.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar

from pydantic import Field

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import DatasetOptions, Passage, Question, Record, Reject
from vitalfew.tasks.datasets.delimited import tsv_or_json_lines
from vitalfew.tasks.datasets.rows import (
    Row,
    RowDataset,
    RowError,
    answers_of,
    check_text,
    id_of,
    kind_of,
    list_of,
    object_of,
    stream_json,
    text_of,
    value_of,
)


class QuestionsOnly(RowDataset):
    """A dataset without passages: its questions are asked of another dataset's index."""

    has_passages: ClassVar[bool] = False


class NQOpen(QuestionsOnly):
    """Questions of NQ-open with their gold answers; no passages.

    One JSON object a line: {"question", "answer": [string, ...]}. The offset is the line.
    """

    example: ClassVar[str] = "nq_open:data/NQ-open.dev.jsonl"

    def read(self, row: Row, number: int) -> Iterator[Question]:
        yield Question(text=text_of(row, "question"), answers=answers_of(value_of(row, "answer")))


_POPQA_ANSWERS = ("possible_answers", "answers", "golden_answers")


class PopQA(QuestionsOnly):
    """Questions of PopQA with their gold answers; no passages.

    Tab-separated; the first line names the columns. Of these, "id", "question" and "possible_answers" (a JSON list) are
    used, and the others ("subj", "prop", "obj", "s_pop", "o_pop", ...) skipped. Or one JSON object a line with the same
    keys and the answers as a list, or as a list in a string, at "possible_answers", "answers" or "golden_answers".
    With max_views=100, questions on entities with 100 page views a month or more ("s_pop") are rejected ("left_out"),
    which leaves the long tail. The offset is the line.
    """

    example: ClassVar[str] = "popqa:data/popQA.tsv"

    class Options(DatasetOptions):
        max_views: int | None = Field(
            None,
            ge=1,
            description="keep questions on entities with fewer page views a month (s_pop) than this; the long tail of "
            "Self-RAG's evaluation is below 100",
        )

    options: Options

    def rows(self) -> Iterator[tuple[int, Any]]:
        return tsv_or_json_lines(self.source())

    def read(self, row: Row, number: int) -> Iterator[Record]:
        limit = self.options.max_views
        if limit is not None and (views := _views(row)) >= limit:
            yield Reject("left_out", f"max_views={limit} leaves out an entity of {views:g} page views a month")
            return
        key = next((key for key in _POPQA_ANSWERS if key in row), _POPQA_ANSWERS[0])
        text, answers = text_of(row, "question"), answers_of(value_of(row, key))
        yield Question(text, answers, source_id=id_of(row, "id"))


def _views(row: Row) -> float:
    """Return the page views a month of the question's entity. Raises RowError."""
    value, views = value_of(row, "s_pop"), math.nan
    with suppress(ValueError):
        views = float(value) if isinstance(value, str | int | float) else math.nan
    if not math.isfinite(views):
        raise RowError("wrong_type", f"'s_pop' holds {kind_of(value)}; expected a number of page views")
    return views


class TriviaQA(QuestionsOnly):
    """Questions of TriviaQA with their gold answers; no passages.

    An object {"Data": [{"Question", "QuestionId", "Answer": {"Value", "Aliases": [...]}}]}, with evidence or without
    (unfiltered-nocontext). The gold answers are the value, its aliases and "HumanAnswers" if people answered too: what
    the official evaluation accepts, without normalisation. Blank aliases are skipped; the questions of a test file have
    no answers. The offset is the record number.
    """

    example: ClassVar[str] = "triviaqa:data/qa/wikipedia-dev.json"

    def rows(self) -> Iterator[tuple[int, Any]]:
        expects = 'the JSON of TriviaQA: {"Data": [{"Question", "QuestionId", "Answer"}, ...]}'
        return stream_json(self.source(), expects, "Data", "questions")

    def read(self, row: Row, number: int) -> Iterator[Question]:
        text, answer = text_of(row, "Question"), row.get("Answer")
        answers = () if answer is None else _trivia_answers(object_of(answer))
        yield Question(text, answers, source_id=id_of(row, "QuestionId"))


def _trivia_answers(answer: Row) -> tuple[str, ...]:
    """Return the unique answers: the value, then its aliases, then what people answered. Raises RowError."""
    answers = [text_of(answer, "Value")]
    for key in ("Aliases", "HumanAnswers"):
        aliases = list_of(answer, key) if key in answer else []
        answers += [check_text(alias, f"{key}[{index}]", blank=True) for index, alias in enumerate(aliases)]
    return tuple(dict.fromkeys(filter(None, answers)))


Option = tuple[str, str]
"""A label and the text it stands for."""


class Arc(QuestionsOnly):
    """Multiple-choice questions of ARC, with their options; no passages.

    One JSON object a line: {"id", "question": {"stem", "choices": [{"text", "label"}, ...]}, "answerKey"}, or flat,
    {"id", "question", "choices": {"text": [...], "label": [...]}, "answerKey"}. The text of a question is its stem,
    followed by one line per option, "A: its text". The gold answers are the right option's text and its whole line,
    never the label alone, which nearly every output contains: only the metric `choice` reads labels. The offset is the
    line.
    """

    example: ClassVar[str] = "arc:data/ARC-Challenge-Test.jsonl"

    def read(self, row: Row, number: int) -> Iterator[Question]:
        nested = value_of(row, "question")
        holder = nested if isinstance(nested, dict) else row
        stem = text_of(holder, "stem" if holder is nested else "question")
        options = _options(value_of(holder, "choices"))
        label, right = _right_option(text_of(row, "answerKey"), options)
        text = "\n".join([stem, *(f"{name}: {words}" for name, words in options)])
        yield Question(text, (right, f"{label}: {right}"), source_id=id_of(row, "id"))


def _options(choices: object) -> list[Option]:
    """Return the options in order, from a list of {text, label} or an object of two lists. Raises RowError."""
    if isinstance(choices, dict):
        labels, texts = list_of(choices, "label"), list_of(choices, "text")
        if len(labels) != len(texts):
            raise RowError("wrong_type", f"'choices' has {len(labels)} labels for {len(texts)} texts")
        pairs = list(zip(labels, texts, strict=True))
    elif isinstance(choices, list):
        pairs = [(value_of(object_of(choice), "label"), value_of(choice, "text")) for choice in choices]
    else:
        raise RowError("wrong_type", f"'choices' is {kind_of(choices)}; expected a list of objects, or two lists")
    return [
        (check_text(label, f"label {index}"), check_text(text, f"the text of option {index}"))
        for index, (label, text) in enumerate(pairs)
    ]


def _right_option(key: str, options: list[Option]) -> Option:
    """Return the option that the key names. Raises RowError unless the key names exactly one."""
    named = [option for option in options if option[0] == key]
    if len(named) != 1:
        offered = ", ".join(repr(label[:20]) for label, _ in options[:12]) or "none"
        raise RowError("unknown_label", f"'answerKey' {key[:20]!r} is the label of {len(named)} options: {offered}")
    return named[0]


LABELS = ("true", "false", "mixture", "unproven")
_VERDICTS = {"supports": "true", "refutes": "false"}
"""The labels of Self-RAG's file, which come from FEVER, and their names here."""


class PubHealth(QuestionsOnly):
    """Claims of PubHealth as questions, with their labels (true, false, mixture, unproven) as gold answers.

    Tab-separated; the first line names the columns, of which "claim_id", "claim", "label" and, with passages=true,
    "main_text" are used. Or one JSON object a line, with the claim at "claim" or "question" and the label at "label"
    (SUPPORTS and REFUTES mean true and false) or else in "answers". A row with another label than the four is rejected;
    binary=true also rejects the claims that are a mixture or unproven ("left_out"). An article comes before its claim.
    A claim whose article is blank has no gold passage. The offset is the line.
    """

    example: ClassVar[str] = "pubhealth:data/PUBHEALTH/test.tsv?binary=true"

    class Options(DatasetOptions):
        binary: bool = Field(False, description="keep only claims that are true or false, as Self-RAG does")
        passages: bool = Field(False, description="use the article (`main_text`) of a claim as its gold passage")

    options: Options

    def rows(self) -> Iterator[tuple[int, Any]]:
        return tsv_or_json_lines(self.source())

    def read(self, row: Row, number: int) -> Iterator[Record]:
        text = text_of(row, "claim" if "claim" in row else "question")
        label, name = _label(row), id_of(row, "claim_id" if "claim_id" in row else "id")
        if self.options.binary and label not in LABELS[:2]:
            yield Reject("left_out", f"binary=true leaves out the claims that are {label!r}")
            return
        article = text_of(row, "main_text", blank=True) if self.options.passages else ""
        if article:
            yield Passage("", article, name)
        yield Question(text, (label,), (passage_id(article),) if article else (), (), name)


def _label(row: Row) -> str:
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
