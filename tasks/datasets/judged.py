"""A corpus with questions and relevance judgements (qrels) apart, as BEIR and MS MARCO keep them.

Judgements name documents as their source does, and gold passages are named after their content. So the judgements are
read first, then the corpus, noting the content ids of the relevant documents only, then the questions: memory follows
the judgements, never the corpus.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from storage.ids import passage_id
from tasks.datasets.base import Passage, Question, Record, Reject
from tasks.datasets.delimited import Line, lines_of
from tasks.datasets.files import RowError, open_source

_PACKED = ("", ".gz", ".zst", ".bz2", ".xz")


def judged_records(
    qrels: Path | None, passages: Iterable[tuple[int, Record]], questions: Iterable[tuple[int, Record]]
) -> Iterator[tuple[int, Record]]:
    """The passages, then the questions that `qrels` judges, with their gold passages; without `qrels` all, with none.

    `source_id` is the name by which the judgements know a passage or a question. A question of which no relevant
    document could be read is a Reject, as are judgements of a question that is not there. Raises InputError.
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
    """The records of one file of several, whose name the details of its rejects then start with."""
    for number, record in records:
        if isinstance(record, Reject):
            record = Reject(record.reason, f"{path.name}: {record.detail}")
        yield number, record


def packed_or_not(path: Path) -> Path | None:
    """The file, or a packed one of its name (`.gz`, `.zst`, `.bz2`, `.xz`); None where neither is there."""
    return next((found for suffix in _PACKED if (found := path.with_name(path.name + suffix)).exists()), None)


class Judgements:
    """Which documents are relevant to which question, by the names their source gives them."""

    def __init__(self) -> None:
        self._relevant: dict[str, dict[str, None]] = {}
        self._unasked: dict[str, int] = {}
        self._passages: dict[str, int | None] = {}

    def read(self, path: Path) -> Iterator[tuple[int, Record]]:
        """Read BEIR's three columns (question, document, relevance; the first line names them), or TREC's four, which
        have a number between question and document. Yields the lines that cannot be used. Raises InputError."""
        with open_source(path) as source:
            for line in lines_of(source):
                try:
                    self._add(line)
                except RowError as error:
                    yield line.number, error.reject(path.name)

    def _add(self, line: Line) -> None:
        """Keep the judgement of one line. Raises RowError."""
        if line.fault:
            raise line.fault
        text = line.text.strip("\r\n")
        fields = text.split("\t") if "\t" in text else text.split()
        if not fields:
            return
        if len(fields) not in (3, 4):
            raise RowError("malformed_row", f"{len(fields)} fields where question, document and relevance are due")
        question, document, written = fields[0].strip(), fields[-2].strip(), fields[-1]
        try:
            relevance = float(written)
        except ValueError as error:
            if line.number == 1:
                return
            raise RowError("wrong_type", f"the relevance is {written[:40]!r}, a number is due") from error
        if question not in self._relevant:
            self._unasked[question] = line.number
        relevant = self._relevant.setdefault(question, {})
        if relevance > 0:
            relevant[document] = None
            self._passages[document] = None

    def note(self, passage: Passage) -> None:
        """Keep the content id of a passage that is relevant to a question."""
        if passage.source_id in self._passages and self._passages[passage.source_id] is None:
            self._passages[passage.source_id] = passage_id(passage.text)

    def of(self, question: Question) -> Question | Reject | None:
        """The question with its gold passages; None where there is no judgement of it."""
        relevant = self._relevant.get(question.source_id)
        if relevant is None:
            return None
        self._unasked.pop(question.source_id, None)
        passages = [found for name in relevant if (found := self._passages[name]) is not None]
        if relevant and not passages:
            shown = next(iter(relevant))[:40]
            return Reject(
                "no_gold_passage",
                f"none of the {len(relevant)} relevant documents ({shown!r}, ...) of question "
                f"{question.source_id[:40]!r} could be read",
            )
        return replace(question, gold_passages=tuple(dict.fromkeys(passages)))

    def without_question(self) -> Iterator[tuple[int, Reject]]:
        """A Reject at the first judgement of each question that `of` was not asked for."""
        for question, number in self._unasked.items():
            yield number, Reject("unknown_question", f"there is no question {question[:40]!r}")
