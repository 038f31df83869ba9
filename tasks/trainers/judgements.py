"""The critic's training material: which contexts have the answer to a question, and where; which answers are right.

Contexts are drawn as for the reader, with and without the answer. For ISREL and ISSUP the critic learns where the gold
answers are in them. For ISUSE it learns to judge answers without a context. Right ones are gold answers and the
reader's; wrong ones are what the reader finds in contexts without the answer, or in the right context once the gold
answers are cut out of it, the gold answers of other questions on the passage, and other names and numbers.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.metrics.answers import is_right
from vitalfew.tasks.models.small.windows import MAX_QUESTION, answer_window, encoded
from vitalfew.tasks.raters.base import RatedContext
from vitalfew.tasks.trainers.articles import MarkedQuestion, Material, contains_answer
from vitalfew.tasks.trainers.examples import CANDIDATE, Sampler, SpanExample, SpanWindow, labelled

READ_RIGHT = 0.5
"""Share of the answers to a context with the right one that are the reader's; the others are the gold answer."""
WRONG_WEIGHTS = (0.5, 0.3, 0.2)
"""The kinds of wrong answers to a context with the right one: the reader's, another question's, a name or number."""
READ_STRAY = 0.8
"""Share of the answers to a context without the answer that are the reader's; the others are another question's."""


@dataclass(frozen=True, slots=True)
class LabelledCandidate:
    """A candidate with its truth. `relevant`: the context has the gold answer where it is marked; `useful`: the answer
    is right; `supported`: it is right, and the context has a gold answer's text."""

    candidate: RatedContext
    relevant: bool
    supported: bool
    useful: bool


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer to a question, and whether it is right."""

    question: str
    answer: str
    useful: bool


@dataclass(frozen=True, slots=True)
class _Draft:
    """An answer to a question. If `read` is not empty, the reader still has to answer from that text."""

    asked: MarkedQuestion
    answer: str = ""
    read: str = ""
    wrong: bool = False
    """True if the draft is dropped where its answer turns out right."""


class JudgementSampler:
    """Draws different examples for every pass over the questions. The same seed and pass give the same ones."""

    def __init__(self, material: Material, negatives: float, seed: int, reader: Generator) -> None:
        self.sampler, self.seed, self.reader = Sampler(material, negatives, seed), seed, reader
        self.golds: dict[int, list[str]] = {}
        for asked in material.questions:
            self.golds.setdefault(asked.passage, []).extend(dict.fromkeys(asked.answers))

    def contexts(self, epoch: int) -> list[SpanExample]:
        return [example for _, example in self.sampler.examples(epoch)]

    def answers(self, epoch: int) -> list[JudgedAnswer]:
        """Return the answers of one pass, drawn from its contexts."""
        draw = random.Random(f"{self.seed}/{epoch}/judgements")
        drafts = [
            draft for asked, example in self.sampler.examples(epoch) for draft in self._drafts(asked, example, draw)
        ]
        prompts = [Prompt("", draft.asked.question, (draft.read,)) for draft in drafts if draft.read]
        answers = iter(self.reader.generate(prompts))
        finished = ((draft, next(answers).text if draft.read else draft.answer) for draft in drafts)
        return [judged for draft, answer in finished if (judged := _judged(draft, answer))]

    def _drafts(self, asked: MarkedQuestion, example: SpanExample, draw: random.Random) -> Iterator[_Draft]:
        context = example.context
        if not example.spans:
            yield self._stray(asked, context, draw)
            return
        start, end = draw.choice(example.spans)
        yield _Draft(asked, read=context) if draw.random() < READ_RIGHT else _Draft(asked, context[start:end])
        yield self._wrong(asked, context, draw)

    def _wrong(self, asked: MarkedQuestion, context: str, draw: random.Random) -> _Draft:
        left = without_answers(context, asked.answers)
        others = [text for text in self.golds[asked.passage] if text in left]
        names = [match.group() for match in CANDIDATE.finditer(left)]
        kind = draw.choices(range(3), WRONG_WEIGHTS)[0]
        for pool in (others, names)[kind - 1 :] if kind else ():
            if pool:
                return _Draft(asked, draw.choice(pool), wrong=True)
        return _Draft(asked, read=left, wrong=True)

    def _stray(self, asked: MarkedQuestion, context: str, draw: random.Random) -> _Draft:
        if draw.random() < READ_STRAY:
            return _Draft(asked, read=context)
        return _Draft(asked, draw.choice(self.golds[asked.passage]))


def _judged(draft: _Draft, answer: str) -> JudgedAnswer | None:
    """Return None if the answer is empty, or if it must be wrong but is nearly right."""
    useful = is_right(answer, draft.asked.answers)
    if not answer or (draft.wrong and (useful or contains_answer(answer, draft.asked.answers))):
        return None
    return JudgedAnswer(draft.asked.question, answer, useful)


def without_answers(text: str, answers: Sequence[str]) -> str:
    pattern = "|".join(re.escape(answer) for answer in sorted(answers, key=len, reverse=True))
    return re.sub(pattern, "", text, flags=re.IGNORECASE)


def lessons(tokenizer: Tokenizer, contexts: Sequence[SpanExample], answers: Sequence[JudgedAnswer]) -> list[SpanWindow]:
    """Return all windows of the contexts, and the windows of the answers whose question is not too long."""
    texts = encoded(tokenizer, [text for row in answers for text in (row.question, row.answer)])
    return labelled(tokenizer, contexts) + [
        SpanWindow(answer_window(tokenizer, texts[row.question], texts[row.answer]), useful=row.useful)
        for row in answers
        if len(texts[row.question].ids) <= MAX_QUESTION
    ]
