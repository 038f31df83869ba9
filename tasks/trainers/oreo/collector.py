"""The contract of a collector, which writes evidence texts that Oreo learns to write, and the curation of its texts.

Oreo (arXiv 2502.13019, section 2.2) has a strong language model write the evidence text of a question. Its curation has
two rules: the text contains a gold answer, and its entities and events are a subset of the chunks'. How entities are
found is not stated. Ours: names, numbers and dates by their spelling (runs of capitalised words within a sentence, and
words with digits), compared whatever the case. Events are left out. Bootstrapping (appendix A.2): where a text lacks
the answer, the collector is told it and asked again.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from vitalfew.tasks.metrics.answers import has_answer
from vitalfew.tasks.models.small.copied import CopiedRun
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.splitters.tokens import count_tokens

UNKNOWN = "[UNKNOWN]"
"""The word that a model has to write if the chunks do not answer the question."""
KEPT = "kept"
REASONS = {
    "no_hits": "nothing was retrieved for the question",
    "answer_not_in_chunks": "no chunk has a gold answer",
    "unknown": "the collector says that the chunks do not answer the question",
    "empty": "the collector wrote nothing",
    "answer_not_in_output": "the evidence text has no gold answer",
    "ungrounded": "the evidence text has a name or a number that no chunk has",
    "over_long": "the question or its evidence text is longer than collect.question_tokens or collect.target_tokens",
}
"""Why a question gives no example."""
TOLD = ("unknown", "empty", "answer_not_in_output")
"""Verdicts after which a collector is asked again."""

_WORD = re.compile(r"\w+")
_START = re.compile(r"(?:^|[.!?:;\"“(\n]\s*)$")
"""The text before a word that begins a sentence, whose capital says nothing."""


@dataclass(frozen=True, slots=True)
class OreoExample:
    """A question, its gold answers, the chunks that were retrieved for it, without titles where none are shown, and
    where the data set marks what supports the answer (passage, start, end). Once an evidence text is collected: the
    `target`, the parts of the chunks that it is `copied` from, and whether it is to `learn`, `choose` or `held_out`."""

    question: str
    answers: tuple[str, ...]
    chunks: tuple[Hit, ...]
    facts: tuple[tuple[int, int, int], ...] = ()
    question_id: int = 0
    target: str = ""
    copied: tuple[CopiedRun, ...] = ()
    split: str = ""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "OreoExample":
        """Of a row of `oreo_examples`."""
        chunks = tuple(Hit(one["title"], one["text"], one["passage_id"], 0, 0) for one in row["chunks"])
        copied = tuple(CopiedRun(**run) for run in row["copied"])
        about = {name: row[name] for name in ("question", "question_id", "target", "split")}
        return cls(answers=tuple(row["answers"]), chunks=chunks, copied=copied, **about)

    @property
    def texts(self) -> list[str]:
        """The chunks as models read them."""
        return [chunk.titled for chunk in self.chunks]

    @property
    def size(self) -> int:
        """Characters that are read for it."""
        return sum(map(len, self.texts)) + len(self.question) * len(self.chunks)


class Output(NamedTuple):
    """An evidence text. `copied`: the parts of the chunks as shown that it consists of, where the collector knows
    them; `tokens` and `seconds`: what it took; `error`: why there is none."""

    text: str
    copied: tuple[CopiedRun, ...] = ()
    tokens: int = 0
    seconds: float = 0.0
    error: str = ""


class Collector(Protocol):
    """A class that is made of its `Options`, a CollectConfig with the collector's further settings."""

    version: ClassVar[str]
    uses_gpu: bool
    workers: int | None
    attempts: int
    """The most times that it is asked about a question: once without the answer, then with it."""

    def identity(self) -> dict[str, Any]: ...

    def collect(self, cases: Sequence[OreoExample], earlier: Sequence[str | None]) -> list[Output]:
        """The evidence texts of the cases, in their order. `earlier`: the text that it wrote before, which lacks the
        answer, and the answer is now given; None: the first attempt."""
        ...


class Attempt(NamedTuple):
    """A collector's text and its verdict: `KEPT` or one of `REASONS`."""

    output: Output
    verdict: str


def collected(
    collector: Collector, cases: Sequence[OreoExample], target_tokens: int, tick: Tick = no_tick
) -> list[list[Attempt]]:
    """All attempts at every case, in their order; the last one counts."""
    attempts: list[list[Attempt]] = [[] for _ in cases]
    for _ in range(collector.attempts):
        due = [number for number, own in enumerate(attempts) if not own or own[-1].verdict in TOLD]
        earlier = [attempts[number][-1].output.text if attempts[number] else None for number in due]
        outputs = collector.collect([cases[number] for number in due], earlier) if due else []
        for number, output in zip(due, outputs, strict=True):
            attempts[number].append(Attempt(output, verdict(cases[number], output.text, target_tokens)))
        tick(0, sum(output.tokens for output in outputs))
    tick(len(cases), 0)
    return attempts


def unfit(case: OreoExample, question_tokens: int) -> str:
    """Why no collector is asked about a case: one of `REASONS`, or ''."""
    if not case.chunks:
        return "no_hits"
    if count_tokens(case.question) > question_tokens:
        return "over_long"
    return "" if any(has_answer(text, case.answers) for text in case.texts) else "answer_not_in_chunks"


def verdict(case: OreoExample, text: str, target_tokens: int) -> str:
    """`KEPT`, or the first of `REASONS` that applies to an evidence text."""
    if not text.strip():
        return "empty"
    if UNKNOWN.lower() in text.lower():
        return "unknown"
    if not has_answer(text, case.answers):
        return "answer_not_in_output"
    if named(text) - words(" ".join(case.texts)):
        return "ungrounded"
    return "over_long" if count_tokens(text) > target_tokens else KEPT


def words(text: str) -> set[str]:
    return {match[0].casefold() for match in _WORD.finditer(text)}


def named(text: str) -> set[str]:
    """The words, folded, of names and numbers by their spelling: words with a digit, and words with a capital that do
    not begin a sentence."""
    return {
        match[0].casefold()
        for match in _WORD.finditer(text)
        if any(map(str.isdigit, match[0]))
        or (match[0][0].isupper() and not _START.search(text[max(0, match.start() - 8) : match.start()]))
    }


def aligned(text: str, chunks: Sequence[str]) -> tuple[CopiedRun, ...]:
    """The parts of the chunks that a text repeats: from left to right the longest run of the same words that is left,
    whatever the case. A single word counts if it is spelled like a name or a number. Empty if these parts hold less
    than half of the text's words."""
    own = [match[0].casefold() for match in _WORD.finditer(text)]
    single = named(text)
    places = [[(match[0].casefold(), *match.span()) for match in _WORD.finditer(chunk)] for chunk in chunks]
    starts: dict[str, list[tuple[int, int]]] = {}
    for chunk, of_chunk in enumerate(places):
        for number, (word, _, _) in enumerate(of_chunk):
            starts.setdefault(word, []).append((chunk, number))
    used: set[tuple[int, int]] = set()
    runs: list[CopiedRun] = []
    number = held = 0
    while number < len(own):
        length, chunk, first = max(
            ((_common(own[number:], places[chunk], chunk, first, used), -chunk, -first)
             for chunk, first in starts.get(own[number], ())),
            default=(0, 0, 0),
        )  # fmt: skip
        if length > 1 or (length == 1 and own[number] in single):
            chunk, first = -chunk, -first
            used |= {(chunk, place) for place in range(first, first + length)}
            runs.append(CopiedRun(chunk, places[chunk][first][1], places[chunk][first + length - 1][2]))
            held += length
        number += max(1, length)
    return tuple(runs) if 2 * held >= len(own) else ()


def _common(
    words: Sequence[str], places: Sequence[tuple[str, int, int]], chunk: int, first: int, used: set[tuple[int, int]]
) -> int:
    """Count the words that agree with a chunk's from a place on, none of them used."""
    length = 0
    for word, (other, _, _) in zip(words, places[first:], strict=False):
        if word != other or (chunk, first + length) in used:
            break
        length += 1
    return length
