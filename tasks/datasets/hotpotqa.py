"""HotpotQA and 2WikiMultihopQA: questions with ten passages per question and sentence-level supporting facts.

Format: Yang et al., "HotpotQA", EMNLP 2018 (arXiv 1809.09600), section 3; 2WikiMultihopQA (arXiv 2011.01060) uses the
same. One deviation: two sentences that meet without white space are joined by a space, because 2WikiMultihopQA drops
the space at the start of a sentence.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import Passage, Question, Record, Span
from vitalfew.tasks.datasets.files import (
    FileDataset,
    RowError,
    check_text,
    id_of,
    kind_of,
    list_of,
    object_of,
    stream_json,
    text_of,
)

_EXPECTS = "a JSON array of HotpotQA questions"


@dataclass(frozen=True, slots=True)
class _Context:
    """A passage of a question, with one span per sentence (None: the sentence is blank)."""

    title: str
    passage: Passage
    spans: tuple[Span | None, ...]


class HotpotQA(FileDataset):
    """Questions of HotpotQA or 2WikiMultihopQA with their passages and supporting facts.

    A JSON array of {"question", "answer", "context": [[title, [sentence, ...]], ...], "supporting_facts": [[title,
    sentence index], ...], "_id"}. A question's passages come before it. The published data has supporting facts that
    are not in the question's context: they are skipped, and a question without any other is rejected.
    """

    example: ClassVar[str] = "hotpotqa:data/hotpot_dev_distractor_v1.json"

    def records(self) -> Iterator[tuple[int, Record]]:
        for number, row in stream_json(self.source(), _EXPECTS):
            for record in _records_of(row):
                yield number, record


def _records_of(row: object) -> Iterator[Record]:
    """Yield the passages of one question, then the question; a part that cannot be used becomes a Reject."""
    try:
        fields = object_of(row)
    except RowError as error:
        yield error.reject()
        return
    contexts: list[_Context] = []
    try:
        entries = list_of(fields, "context")
    except RowError as error:
        entries = []
        yield error.reject()
    for position, entry in enumerate(entries):
        try:
            contexts.append(_context(entry))
        except RowError as error:
            yield error.reject(f"context[{position}]")
        else:
            yield contexts[-1].passage
    try:
        yield _question(fields, contexts)
    except RowError as error:
        yield error.reject("question")


def _context(entry: object) -> _Context:
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


def _question(fields: dict[str, Any], contexts: list[_Context]) -> Question:
    """Return the question of a row. Raises RowError."""
    text = text_of(fields, "question")
    answer = text_of(fields, "answer")
    facts = list_of(fields, "supporting_facts")
    by_title: dict[str, _Context] = {}
    for context in contexts:
        by_title.setdefault(context.title, context)
    spans = [span for fact in facts if (span := _span_of(fact, by_title)) is not None]
    if facts and not spans:
        raise RowError("no_gold_passage", f"none of its {len(facts)} supporting facts is in its context")
    return Question(
        text=text,
        answers=(answer,),
        gold_passages=tuple(dict.fromkeys(span.passage_id for span in spans)),
        supporting_facts=tuple(dict.fromkeys(spans)),
        source_id=id_of(fields, "_id" if "_id" in fields else "id"),
    )


def _span_of(fact: object, by_title: dict[str, _Context]) -> Span | None:
    """Return the span of a [title, sentence index] fact; None if the context has no such sentence. Raises RowError."""
    if not (isinstance(fact, list) and len(fact) == 2 and isinstance(fact[0], str) and type(fact[1]) is int):
        raise RowError("wrong_type", f"a supporting fact is {kind_of(fact)}; expected [title, sentence index]")
    title, index = fact
    context = by_title.get(title)
    # A negative index would count from the end and give a sentence that the fact does not mean.
    if context is None or not 0 <= index < len(context.spans):
        return None
    return context.spans[index]
