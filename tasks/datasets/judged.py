"""A corpus, its questions and its relevance judgements (qrels) in separate files, as BEIR and MS MARCO keep them.

Judgements name documents as their source does, while gold passages have ids from their content. So the judgements are
read first, then the corpus, of which only the relevant documents' content ids are kept, then the questions: memory
grows with the judgements, never with the corpus.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import Passage, Question, Record, Reject
from vitalfew.tasks.datasets.delimited import Line, lines_of
from vitalfew.tasks.datasets.files import RowError, open_source

_PACKED = ("", ".gz", ".zst", ".bz2", ".xz")


def judged_records(
    qrels: Path | None, passages: Iterable[tuple[int, Record]], questions: Iterable[tuple[int, Record]]
) -> Iterator[tuple[int, Record]]:
    """Yield the passages, then the questions that `qrels` judges, with their gold passages.

    Without `qrels`, yield all questions, without gold passages. The judgements know a passage or a question by its
    `source_id`. A question becomes a Reject if none of its relevant documents could be read; so do the judgements of a
    question that is missing. Raises InputError.
    """
    judgements = Judgements()
    if qrels is not None:
        yield from judgements.read(qrels)
    for number, record in passages:
        if isinstance(record, Passage):
            judgements.note(record)
        yield number, record
    for number, record in questions:
        judged = judgements.of(record) if qrels is not None and isinstance(record, Question) else record
        if judged is not None:
            yield number, judged
    if qrels is not None:
        yield from named(qrels, judgements.without_question())


def named(path: Path, records: Iterable[tuple[int, Record]]) -> Iterator[tuple[int, Record]]:
    """Yield the records of one of several files, with its name at the start of the rejects' details."""
    for number, record in records:
        if isinstance(record, Reject):
            record = Reject(record.reason, f"{path.name}: {record.detail}")
        yield number, record


def packed_or_not(path: Path) -> Path | None:
    """Return the file, or its compressed copy (`.gz`, `.zst`, `.bz2`, `.xz`); None if neither exists."""
    copies = (path.with_name(path.name + suffix) for suffix in _PACKED)
    return next((copy for copy in copies if copy.exists()), None)


class Judgements:
    """Which documents are relevant to which question, by their names in the source."""

    def __init__(self) -> None:
        self._relevant: dict[str, dict[str, None]] = {}
        self._unasked: dict[str, int] = {}
        self._passages: dict[str, int | None] = {}

    def read(self, path: Path) -> Iterator[tuple[int, Record]]:
        """Read BEIR's three columns (question, document, relevance; the first line names them) or TREC's four.

        TREC has a number between question and document. Yields the lines that cannot be used. Raises InputError.
        """
        with open_source(path) as source:
            for line in lines_of(source):
                try:
                    self._add(line)
                except RowError as error:
                    yield line.number, error.reject(path.name)

    def _add(self, line: Line) -> None:
        """Store the judgement of one line. Raises RowError."""
        if line.fault:
            raise line.fault
        text = line.text.strip("\r\n")
        fields = text.split("\t") if "\t" in text else text.split()
        if not fields:
            return
        if len(fields) not in (3, 4):
            raise RowError("malformed_row", f"{len(fields)} fields instead of question, document and relevance")
        question, document, number = fields[0].strip(), fields[-2].strip(), fields[-1]
        try:
            relevance = float(number)
        except ValueError as error:
            if line.number == 1:
                return
            raise RowError("wrong_type", f"the relevance is {number[:40]!r}; expected a number") from error
        if question not in self._relevant:
            self._unasked[question] = line.number
        relevant = self._relevant.setdefault(question, {})
        if relevance > 0:
            relevant[document] = None
            self._passages[document] = None

    def note(self, passage: Passage) -> None:
        """Store a passage's content id if the passage is relevant to a question."""
        if passage.source_id in self._passages and self._passages[passage.source_id] is None:
            self._passages[passage.source_id] = passage_id(passage.text)

    def of(self, question: Question) -> Question | Reject | None:
        """Return the question with its gold passages; None if it has no judgement."""
        relevant = self._relevant.get(question.source_id)
        if relevant is None:
            return None
        self._unasked.pop(question.source_id, None)
        passages = [passage for name in relevant if (passage := self._passages[name]) is not None]
        if relevant and not passages:
            first = next(iter(relevant))[:40]
            return Reject(
                "no_gold_passage",
                f"none of the {len(relevant)} relevant documents ({first!r}, ...) of question "
                f"{question.source_id[:40]!r} could be read",
            )
        return replace(question, gold_passages=tuple(dict.fromkeys(passages)))

    def without_question(self) -> Iterator[tuple[int, Reject]]:
        """Yield a Reject, at its first judgement, for every question that `of` did not get."""
        for question, number in self._unasked.items():
            yield number, Reject("unknown_question", f"there is no question {question[:40]!r}")
