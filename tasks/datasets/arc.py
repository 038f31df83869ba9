"""ARC: multiple-choice science questions of school exams.

Format: the JSON lines of the ARC release (ARC-V1-Feb2018, ARC-Challenge and ARC-Easy), Clark et al., 2018 (arXiv
1803.05457), and the flat rows into which the Hugging Face hub and Self-RAG (arXiv 2310.11511) turned them.

A prompt needs the options, so they are part of the question's text. Two choices keep it honest to count an output as
right if it contains a gold answer. A bare label is not a gold answer: nearly every output contains "A", and the usual
normalisation of answers drops it as an article. And labels stay as the file has them (some questions have 1 to 4);
Self-RAG renames them. Two errors remain. An output that names several options, or an option whose words contain those
of the right one, counts as right. An output that gives only a label counts as wrong. So a prompt should ask for the
words of one option.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from vitalfew.tasks.datasets.base import Question, Record
from vitalfew.tasks.datasets.files import (
    FileDataset,
    RowError,
    check_text,
    id_of,
    kind_of,
    list_of,
    object_of,
    text_of,
    value_of,
)
from vitalfew.tasks.datasets.rows import json_lines, records_of

Option = tuple[str, str]
"""A label and the text it stands for."""


class Arc(FileDataset):
    """Multiple-choice questions of ARC, with their options; no passages.

    One JSON object a line: {"id", "question": {"stem", "choices": [{"text", "label"}, ...]}, "answerKey"}, or flat,
    {"id", "question", "choices": {"text": [...], "label": [...]}, "answerKey"}. The text of a question is its stem,
    followed by one line per option, "A: its text". The gold answers are the right option's text and its whole line,
    never the label alone, which nearly every output contains: prompts should ask for the option's words. The offset is
    the line.
    """

    example: ClassVar[str] = "arc:data/ARC-Challenge-Test.jsonl"
    has_passages: ClassVar[bool] = False

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(json_lines(self.source()), _question)


def _question(row: dict[str, Any]) -> Iterator[Question]:
    """Yield the question of one row. Raises RowError."""
    nested = value_of(row, "question")
    holder = nested if isinstance(nested, dict) else row
    stem = text_of(holder, "stem" if holder is nested else "question")
    options = _options(value_of(holder, "choices"))
    right = _right_option(text_of(row, "answerKey"), options)
    lines = [_line(option) for option in options]
    yield Question(
        text="\n".join([stem, *lines]),
        answers=(right[1], _line(right)),
        source_id=id_of(row, "id"),
    )


def _line(option: Option) -> str:
    return f"{option[0]}: {option[1]}"


def _options(choices: object) -> list[Option]:
    """Return the options in order, from a list of {text, label} or an object {text: [...], label: [...]}.

    Raises RowError.
    """
    if isinstance(choices, dict):
        labels, texts = list_of(choices, "label"), list_of(choices, "text")
        if len(labels) != len(texts):
            raise RowError("wrong_type", f"'choices' has {len(labels)} labels for {len(texts)} texts")
        pairs = list(zip(labels, texts, strict=True))
    elif isinstance(choices, list):
        pairs = [(value_of(object_of(choice), "label"), value_of(choice, "text")) for choice in choices]
    else:
        raise RowError("wrong_type", f"'choices' is {kind_of(choices)}; expected a list or an object of two lists")
    return [
        (check_text(label, f"label {index}"), check_text(text, f"the text of option {index}"))
        for index, (label, text) in enumerate(pairs)
    ]


def _right_option(key: str, options: list[Option]) -> Option:
    """Return the option that the key names. Raises RowError unless the key names exactly one."""
    named = [option for option in options if option[0] == key]
    if len(named) != 1:
        offered = ", ".join(repr(label[:20]) for label, _ in options[:12]) or "none"
        raise RowError("unknown_label", f"'answerKey' {key[:20]!r} names {len(named)} of the options: {offered}")
    return named[0]
