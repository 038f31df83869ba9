"""QMSum: meetings, and questions about them whose answers are summaries of the turns that matter.

Format: the JSON lines of the release (Yale-LILY/QMSum, `data/ALL/jsonl`), Zhong et al., "QMSum", NAACL 2021 (arXiv
2104.05938): one meeting a line, with spans of turns, both ends included. This module adds three things. It cuts a
meeting into contexts, because a meeting is far longer than a passage. It puts a blank line between two turns, at which
every splitter ends a sentence: with a single line break, Punkt joins 30 % of the validation set's turns to the turn
before. And it removes the transcribers' marks ({vocalsound}, {disfmarker}, …), which are not speech and make up 4 % of
the words, unless the user wants them.
"""

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from pydantic import Field

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import DatasetOptions, Passage, Question, Record, Reject, Span
from vitalfew.tasks.datasets.rows import (
    Row,
    RowDataset,
    RowError,
    attempt,
    each_of,
    id_of,
    kind_of,
    list_of,
    object_of,
    text_of,
)

BETWEEN = "\n\n"
"""The separator between two turns of a context."""
_MARK = re.compile(r"\{\s*[a-z]+\s*\}")
_WORD = re.compile(r"\S+")
_TURN = re.compile(r"[0-9]{1,18}")


_Piece = tuple[int, str]
"""The number of a turn, and the turn as a context shows it, or a part of one that is longer than a context."""


class QMSum(RowDataset):
    """Meetings of QMSum, cut into contexts, and the questions about them with their gold turns.

    One meeting a line: {"meeting_transcripts": [{"speaker", "content"}, ...], "specific_query_list": [{"query",
    "answer", "relevant_text_span": [[first turn, last turn], ...]}, ...], "general_query_list": [{"query", "answer"},
    ...]}. A context holds as many whole turns, written "Speaker: content", as fit; a longer turn is cut after a
    sentence or else between words, and every part names its speaker. The supporting facts of a specific question are
    the gold turns in the contexts, and its gold passages are the contexts that hold them. A general question is about a
    whole meeting and has neither. Turns without a word are left out. A gold span that runs past the meeting ends with
    the meeting. The title is the meeting's "id", or "meeting" and its line. A meeting's contexts come before its
    questions.
    """

    example: ClassVar[str] = "qmsum:data/ALL/jsonl/val.jsonl?words=300"

    class Options(DatasetOptions):
        words: int = Field(300, ge=10, description="maximum words in a context, including the names of speakers")
        marks: bool = Field(False, description="keep the transcribers' marks, such as {vocalsound}")

    options: Options

    def read(self, row: Row, number: int) -> Iterator[Record]:
        name = id_of(row, "id") or f"meeting {number}"
        pieces: list[_Piece] = []
        for turn, parts in enumerate(each_of(row, "meeting_transcripts", self._parts)):
            if isinstance(parts, Reject):
                yield parts
            else:
                pieces += [(turn, part) for part in parts]
        if not pieces:
            turns = len(row["meeting_transcripts"])
            raise RowError("empty_text", f"none of the {turns} turns has a readable word")
        gold: dict[int, list[Span]] = {}
        for position, context in enumerate(_contexts(pieces, self.options.words)):
            text, start = BETWEEN.join(piece for _, piece in context), 0
            for turn, piece in context:
                gold.setdefault(turn, []).append(Span(passage_id(text), start, start + len(piece)))
                start += len(piece) + len(BETWEEN)
            yield Passage(name, text, f"{name}#{position}")
        for key in ("specific_query_list", "general_query_list"):
            entries = attempt("", list_of, row, key)
            if isinstance(entries, Reject):
                yield entries
                continue
            for place, entry in enumerate(entries):
                where = f"{key}[{place}]"
                yield attempt(where, _question, entry, f"{name}/{where}", key == "specific_query_list", gold)

    def _parts(self, turn: object) -> list[str]:
        """Cut a turn into parts: one if it fits a context, none if it is blank. Raises RowError."""
        fields = object_of(turn)
        speaker = text_of(fields, "speaker", blank=True)
        content = text_of(fields, "content", blank=True)
        if not self.options.marks:
            content = " ".join(_MARK.sub(" ", content).split())
        prefix = f"{speaker}: " if speaker else ""
        room = self.options.words - len(prefix.split())
        return [prefix + part for part in _cut(content, max(room, 1))]


def _cut(content: str, room: int) -> Iterator[str]:
    """Cut a text into parts of at most `room` words, after the last sentence that fits or else the last word."""
    words = [match.span() for match in _WORD.finditer(content)]
    first = 0
    while first < len(words):
        last = min(first + room, len(words))
        if last < len(words):
            ends = (end for end in range(last, first, -1) if content[words[end - 1][1] - 1] in ".?!")
            last = next(ends, last)
        yield content[words[first][0] : words[last - 1][1]]
        first = last


def _contexts(pieces: Iterable[_Piece], words: int) -> Iterator[list[_Piece]]:
    """Group consecutive pieces into contexts of at most `words` words, unless a single piece has more."""
    context: list[_Piece] = []
    count = 0
    for turn, piece in pieces:
        own = len(piece.split())
        if context and count + own > words:
            yield context
            context, count = [], 0
        context.append((turn, piece))
        count += own
    if context:
        yield context


def _question(entry: object, name: str, specific: bool, gold: dict[int, list[Span]]) -> Question:
    """Read a question and, if it is specific, its gold turns. Raises RowError."""
    fields = object_of(entry)
    text, answer = text_of(fields, "query"), text_of(fields, "answer")
    ranges = [_range(span) for span in list_of(fields, "relevant_text_span")] if specific else []
    turns = [turn for turn in gold if any(turn in span for span in ranges)]
    spans = tuple(dict.fromkeys(span for turn in turns for span in gold[turn]))
    if ranges and not spans:
        raise RowError("no_gold_passage", f"its {len(ranges)} gold spans have no readable turn")
    passages = tuple(dict.fromkeys(span.passage_id for span in spans))
    return Question(text, (answer,), passages, spans, name)


def _range(span: object) -> range:
    """Return the turns of a [first, last] entry of numbers or digit strings, both included. Raises RowError."""
    ends = span if isinstance(span, list) and len(span) == 2 else []
    numbers = [int(end) for end in ends if type(end) is int or (isinstance(end, str) and _TURN.fullmatch(end))]
    if len(numbers) != 2:
        raise RowError("wrong_type", f"a gold span is {kind_of(span)}; expected two numbers, [first turn, last turn]")
    return range(numbers[0], numbers[1] + 1)
