"""`oracle`: evidence texts without a language model: the clauses that the gold answer needs, word for word.

Ours, for machines on which no strong model runs; Oreo has one write the text (`llm`). The sentences in which the data
set marks what supports the answer are cut into clauses, which are left out one by one, each time the one whose absence
costs least, as long as the reader's log-probability of the gold answer (tasks/generators/reader.py) does not fall
by more than `drop` below that of the whole sentences. The title of the first of them is then put in front if that
raises it. If no marked sentence was retrieved, the first sentence with a gold answer counts.
"""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from pydantic import Field, SerializeAsAny

from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.training import CollectConfig
from vitalfew.tasks.generators.reader import NONE, Reader, Told, log_likelihoods, occurrences
from vitalfew.tasks.models.small.copied import CopiedRun, joined, rendered, trimmed
from vitalfew.tasks.registry import make
from vitalfew.tasks.splitters.nltk_punkt import Sentences, untrained
from vitalfew.tasks.trainers.oreo.collector import OreoCase, Output

_BOUNDARY = re.compile(r"[,;:]\s+|\s+[—–-]\s+|\s+(?=\()|(?<=\))\s+")
"""Where a clause ends and the next begins."""


class Oracle:
    """The clauses of the marked sentences that the reader needs for the gold answer; no language model."""

    class Options(CollectConfig, extra="forbid"):
        drop: float = Field(
            0.1,
            ge=0,
            description="How far leaving out clauses may lower the gold answer's log-probability, in nats.",
        )
        reader: SerializeAsAny[GenerateConfig] = Field(
            GenerateConfig(generator="reader"), description="Reader that gives the log-probability, with its settings."
        )

        def identity(self) -> dict[str, Any]:
            return {**super().identity(), "reader": self.reader.identity()}

    version: ClassVar[str] = "1"
    attempts = 1

    def __init__(self, options: Options) -> None:
        """Raises the errors of the reader's constructor, and ConfigError for another generator than a reader."""
        self.options = options
        self.reader: Reader = make(options.reader, "collect.reader")
        self.uses_gpu, self.workers = self.reader.uses_gpu, self.reader.workers

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version, "reader": self.reader.identity()}

    @cached_property
    def sentences(self) -> Sentences:
        return untrained()

    def collect(self, cases: Sequence[OreoCase], earlier: Sequence[str | None]) -> list[Output]:
        began, tokens = time.perf_counter(), 0

        def tick(computed: int) -> None:
            nonlocal tokens
            tokens += computed

        def score(drafts: Sequence[_Draft], texts: Sequence[str]) -> list[float]:
            told = [Told(one.case.question, text, one.case.answers) for one, text in zip(drafts, texts, strict=True)]
            return log_likelihoods(self.reader, told, tick)

        drafts = [_Draft(case, self._clauses(case)) for case in cases]
        for draft, whole in zip(drafts, score(drafts, [draft.text() for draft in drafts]), strict=True):
            draft.best, draft.least = whole, whole - self.options.drop
        due = [draft for draft in drafts if len(draft.kept) > 1 and draft.best > NONE]
        while due:
            shorter = [(draft, kept) for draft in due for kept in draft.shorter()]
            scores = score([draft for draft, _ in shorter], [draft.text(kept) for draft, kept in shorter])
            for (draft, kept), value in zip(shorter, scores, strict=True):
                draft.consider(kept, value)
            due = [draft for draft in due if draft.settle() and len(draft.kept) > 1]
        titled = [draft for draft in drafts if draft.title() is not None]
        for draft, value in zip(titled, score(titled, [draft.text(draft.title()) for draft in titled]), strict=True):
            if value > draft.best:
                draft.kept = draft.title() or draft.kept
        seconds = (time.perf_counter() - began) / max(1, len(cases))
        return [Output(draft.text(), draft.runs(), tokens // len(cases), seconds) for draft in drafts]

    def _clauses(self, case: OreoCase) -> list[CopiedRun]:
        """Return the clauses of the marked sentences, else of the first one with an answer, as ranges of the chunks as
        shown."""
        spans = [*self._spans(case)]
        marked = [span for span in spans if any(self._supports(case, span, fact) for fact in case.facts)]
        answers = [span for span in spans if occurrences(_text(case, span), case.answers)]
        chosen = marked if any(span in answers for span in marked) else [*marked, *answers[:1]]
        return [clause for span in chosen for clause in clauses(case.chunks[span.chunk].shown, span, case.answers)]

    def _spans(self, case: OreoCase) -> Iterator[CopiedRun]:
        """Yield the sentences of all chunks."""
        for number, chunk in enumerate(case.chunks):
            lead = len(chunk.lead)
            for start, end in self.sentences.split(chunk.text):
                yield CopiedRun(number, lead + start, lead + end)

    @staticmethod
    def _supports(case: OreoCase, span: CopiedRun, fact: tuple[int, int, int]) -> bool:
        """Return whether a sentence overlaps with a marked range of its passage."""
        chunk = case.chunks[span.chunk]
        shift = chunk.start - len(chunk.lead)
        return fact[0] == chunk.passage_id and fact[1] < span.end + shift and fact[2] > span.start + shift


def clauses(text: str, sentence: CopiedRun, answers: Sequence[str]) -> list[CopiedRun]:
    """Return the clauses of a sentence of a text, which cover it; no answer is cut in two."""
    whole = occurrences(text, answers)
    cuts = [
        match.end()
        for match in _BOUNDARY.finditer(text, sentence.start, sentence.end)
        if sentence.start < match.end() < sentence.end and not any(s < match.end() < e for s, e in whole)
    ]
    bounds = [sentence.start, *cuts, sentence.end]
    return [CopiedRun(sentence.chunk, start, end) for start, end in pairwise(bounds)]


def _text(case: OreoCase, run: CopiedRun) -> str:
    return case.chunks[run.chunk].shown[run.start : run.end]


@dataclass(eq=False)
class _Draft:
    """A text on its way: `kept` of its clauses, the log-probability `best` of that, and the `least` that is allowed."""

    case: OreoCase
    kept: list[CopiedRun]
    best: float = 0.0
    least: float = 0.0
    _next: tuple[float, list[CopiedRun]] | None = field(default=None)

    def runs(self, kept: Sequence[CopiedRun] | None = None) -> tuple[CopiedRun, ...]:
        shown = self.case.shown
        parts = joined(shown, self.kept if kept is None else kept)
        return tuple(run for part in parts if (run := trimmed(shown, part)))

    def text(self, kept: Sequence[CopiedRun] | None = None) -> str:
        return rendered(self.case.shown, self.runs(kept))

    def shorter(self) -> list[list[CopiedRun]]:
        """Return the kept clauses without one of them, for every one of them."""
        return [[*self.kept[:place], *self.kept[place + 1 :]] for place in range(len(self.kept))]

    def consider(self, kept: list[CopiedRun], value: float) -> None:
        if value >= self.least and (self._next is None or value > self._next[0]):
            self._next = value, kept

    def settle(self) -> bool:
        """Take the best candidate that was considered; return whether there was one."""
        if self._next is None:
            return False
        (self.best, self.kept), self._next = self._next, None
        return True

    def title(self) -> list[CopiedRun] | None:
        """Return the kept clauses after the title of the first one's chunk; None without a title."""
        if not self.kept or not self.case.chunks[self.kept[0].chunk].lead:
            return None
        chunk = self.kept[0].chunk
        return [CopiedRun(chunk, 0, len(self.case.chunks[chunk].lead)), *self.kept]
