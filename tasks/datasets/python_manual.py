"""The manual that every Python carries, `pydoc_data.topics`, with questions on it that were written for Vital Few.

The topics are those of help("TOPICS"): a large part of the language reference and some pages of the library reference,
of the Python that runs this. tasks/datasets/manual_text.py cuts them into passages.

A language model wrote the questions of python_manual.yaml one by one, reading the passages of Python 3.11; nobody else
has judged them. Each names its gold passages by topic and some words of them, which are looked for again in every
version's text, because versions differ a little: where a passage or the answer in it is gone, the question becomes a
Reject. A fact that stands in two places has the gold passage that its question was written on.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from vitalfew.configs.loading import read_yaml
from vitalfew.storage.ids import content_id, passage_id
from vitalfew.tasks.datasets.base import Dataset, DatasetOptions, InputError, Passage, Question, Record, Span
from vitalfew.tasks.datasets.files import RowError
from vitalfew.tasks.datasets.manual_text import cut

QUESTIONS = Path(__file__).with_suffix(".yaml")
HALVES = ("development", "test")
_SENTENCE_END = re.compile(r"[.?!:][\"”)]*(?=\s+[^a-z\s])|(?=\n\n)")


class PythonManualOptions(DatasetOptions):
    """Which of the questions to read."""

    half: Literal["development", "test", "all"] = Field(
        default="all",
        description="development: questions to choose settings with; test: questions to report figures on; or all",
    )


class PythonManual(Dataset):
    """The manual in this Python's pydoc_data.topics, with questions written for it; reads no file of yours.

    Passages of some 60 to 150 words, titled "topic › heading", come before the questions. A passage's source id is
    TOPIC#NUMBER, and a question's HALF/KIND/NUMBER, so that `questions.where="source_id LIKE 'development/%'"` asks
    one half. With half=development or half=test, questions of the other half are left out. A text that occurs in
    several topics is kept once. A question whose passage or answer this version lacks is rejected ("no_gold_passage").
    """

    example: ClassVar[str] = "python_manual:half=development"
    reads_path: ClassVar[bool] = False
    Options: ClassVar[type[DatasetOptions]] = PythonManualOptions
    options: PythonManualOptions

    def files(self) -> list[Path]:
        return [QUESTIONS]

    def identity(self) -> dict[str, Any]:
        return {"topics": content_id(*(part for topic in sorted(_topics().items()) for part in topic))}

    def records(self) -> Iterator[tuple[int, Record]]:
        passages = {topic: list(_passages(topic, text)) for topic, text in sorted(_topics().items())}
        offset = 0
        for passage in (passage for topic in passages.values() for passage in topic):
            offset += 1
            yield offset, passage
        for source_id, entry in _entries(self.options.half):
            offset += 1
            try:
                yield offset, _question(source_id, entry, passages)
            except RowError as error:
                yield offset, error.reject(source_id)


class _Entry(BaseModel):
    """A question of python_manual.yaml. `gold`: of each passage its topic and some words of it, in order."""

    model_config = ConfigDict(extra="forbid")

    ask: str
    kind: str
    answers: tuple[str, ...] = Field(min_length=1)
    gold: tuple[dict[str, str], ...] = Field(min_length=1)


def _topics() -> dict[str, str]:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise InputError(
            f"this Python has no manual ({error}); use a Python with a complete standard library"
        ) from None
    return topics


def _passages(topic: str, text: str) -> Iterator[Passage]:
    sections = cut(text)
    name = next((section.heading for section in sections if section.heading), topic)
    number = 0
    for section in sections:
        title = name if section.heading in ("", name) else f"{name} › {section.heading}"
        for passage in section.passages:
            number += 1
            yield Passage(title, passage, f"{topic}#{number}")


def _entries(half: str) -> Iterator[tuple[str, _Entry]]:
    """Yield (source id, question) of one half, or of both."""
    content = read_yaml(QUESTIONS)
    for name in HALVES if half == "all" else (half,):
        numbers: Counter[str] = Counter()
        for entry in map(_Entry.model_validate, content[name]):
            numbers[entry.kind] += 1
            yield f"{name}/{entry.kind}/{numbers[entry.kind]}", entry


def _question(source_id: str, entry: _Entry, passages: dict[str, list[Passage]]) -> Question:
    """Raises RowError if a passage, or every answer, is not in this version's manual."""
    found = [_find(topic, words, passages.get(topic, [])) for gold in entry.gold for topic, words in gold.items()]
    if not any(_pattern(answer).search(passage.text) for answer in entry.answers for passage, _ in found):
        raise RowError("no_gold_passage", f"no gold passage says {entry.answers[0]!r}")
    return Question(
        text=entry.ask,
        answers=entry.answers,
        gold_passages=tuple(dict.fromkeys(passage_id(passage.text) for passage, _ in found)),
        supporting_facts=tuple(dict.fromkeys(span for _, span in found)),
        source_id=source_id,
    )


def _find(topic: str, words: str, passages: list[Passage]) -> tuple[Passage, Span]:
    """The only passage with these words, and the sentence they stand in. Raises RowError if there is not just one."""
    pattern = _pattern(words)
    found = [(passage, match) for passage in passages if (match := pattern.search(passage.text))]
    if len(found) != 1:
        raise RowError("no_gold_passage", f"{len(found)} passages of the topic {topic!r} say {words!r}")
    ((passage, match),) = found
    ends = [end.end() for end in _SENTENCE_END.finditer(passage.text)]
    start = max((end for end in ends if end <= match.start()), default=0)
    start += len(passage.text[start:]) - len(passage.text[start:].lstrip())
    end = min((end for end in ends if end >= match.end()), default=len(passage.text))
    return passage, Span(passage_id(passage.text), start, end)


def _pattern(words: str) -> re.Pattern[str]:
    """Matches these words in this order, whatever quotes, marks and white space stand between them."""
    return re.compile(r"(?<!\w)" + r"\W+".join(re.findall(r"\w+", words)) + r"(?!\w)")
