"""`oracle`: evidence texts without a language model: the clauses that the gold answer needs, word for word.

Ours, for machines on which no strong model runs; Oreo has one write the text (`llm`). The sentences in which the data
set marks what supports the answer are cut into clauses, which are left out one by one, each time the one whose absence
costs least, as long as the reader's log-probability of the gold answer (tasks/generators/reader.py) does not fall
by more than `drop` below that of the whole sentences. The title of the first of them is then put in front if that
raises it. If no marked sentence was retrieved, the first sentence with a gold answer counts.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from pydantic import Field, SerializeAsAny

from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.training import CollectConfig
from vitalfew.tasks.generators.reader import NONE, Reader, Told, log_likelihoods, occurrences
from vitalfew.tasks.models.small.copied import CopiedRun, joined, rendered, trimmed
from vitalfew.tasks.models.ticks import Counted, no_tick
from vitalfew.tasks.registry import make
from vitalfew.tasks.splitters.nltk_punkt import Sentences, untrained
from vitalfew.tasks.trainers.oreo.collector import OreoExample, Output

_BOUNDARY = re.compile(r"[,;:]\s+|\s+[—–-]\s+|\s+(?=\()|(?<=\))\s+")
"""Where a clause ends and the next begins."""


class Oracle:
    """The clauses of the marked sentences that the reader needs for the gold answer; no language model."""

    class Options(CollectConfig, extra="forbid"):
        drop: float = Field(
            0.1, ge=0, description="How far leaving out clauses may lower the gold answer's log-probability, in nats."
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

    def collect(self, cases: Sequence[OreoExample], earlier: Sequence[str | None]) -> list[Output]:
        began, count = time.perf_counter(), Counted(no_tick)

        def score(drafts: Sequence[_Draft], texts: Sequence[str]) -> list[float]:
            told = [Told(one.case.question, text, one.case.answers) for one, text in zip(drafts, texts, strict=True)]
            return log_likelihoods(self.reader, told, count)

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
        return [Output(draft.text(), draft.runs(), count.tokens // len(cases), seconds) for draft in drafts]

    def _clauses(self, case: OreoExample) -> list[CopiedRun]:
        """The clauses of the marked sentences, else of the first one with an answer, as ranges of the chunks' texts."""
        marked: list[CopiedRun] = []
        answers: list[CopiedRun] = []
        for number, (chunk, text) in enumerate(zip(case.chunks, case.texts, strict=True)):
            lead = len(text) - len(chunk.text)
            for start, end in self.sentences.split(chunk.text):
                sentence = CopiedRun(number, lead + start, lead + end)
                first, last = chunk.start + start, chunk.start + end
                if any(of == chunk.passage_id and a < last and b > first for of, a, b in case.facts):
                    marked.append(sentence)
                if occurrences(chunk.text[start:end], case.answers):
                    answers.append(sentence)
        chosen = marked if any(one in answers for one in marked) else [*marked, *answers[:1]]
        return [clause for one in chosen for clause in clauses(case.texts[one.chunk], one, case.answers)]


def clauses(text: str, sentence: CopiedRun, answers: Sequence[str]) -> list[CopiedRun]:
    """The clauses of a sentence of a text, which cover it; no answer is cut in two."""
    whole = occurrences(text, answers)
    cuts = [
        match.end()
        for match in _BOUNDARY.finditer(text, sentence.start, sentence.end)
        if sentence.start < match.end() < sentence.end and not any(s < match.end() < e for s, e in whole)
    ]
    bounds = [sentence.start, *cuts, sentence.end]
    return [CopiedRun(sentence.chunk, start, end) for start, end in pairwise(bounds)]


@dataclass(eq=False)
class _Draft:
    """A text on its way: `kept` of its clauses, the log-probability `best` of that, and the `least` that is allowed."""

    case: OreoExample
    kept: list[CopiedRun]
    best: float = 0.0
    least: float = 0.0
    _next: tuple[float, list[CopiedRun]] | None = field(default=None)

    def runs(self, kept: Sequence[CopiedRun] | None = None) -> tuple[CopiedRun, ...]:
        texts = self.case.texts
        parts = joined(texts, self.kept if kept is None else kept)
        return tuple(run for part in parts if (run := trimmed(texts, part)))

    def text(self, kept: Sequence[CopiedRun] | None = None) -> str:
        return rendered(self.case.texts, self.runs(kept))

    def shorter(self) -> list[list[CopiedRun]]:
        """The kept clauses without one of them, for every one of them."""
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
        """The kept clauses after the title of the first one's chunk; None without a title."""
        if not self.kept:
            return None
        chunk = self.kept[0].chunk
        lead = len(self.case.texts[chunk]) - len(self.case.chunks[chunk].text)
        return [CopiedRun(chunk, 0, lead), *self.kept] if lead else None
