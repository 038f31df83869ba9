"""The critic's training material: candidates with labels: is the context relevant, the answer supported, and right?

Contexts are drawn as for the reader, with and without the answer. Right answers are gold answers or the reader's. The
wrong answers for a context that has the answer are the reader's, from the context without the gold answers; the gold
answers of other questions on the passage; and other names and numbers. A context without the answer comes with the
reader's answer from it, with the gold answer, which it does not support, or with the answer of another question.
"""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from tasks.critics.base import Candidate
from tasks.critics.embedded import judged_windows
from tasks.generators.base import Generator, Prompt
from tasks.metrics.answers import F1, normalise
from tasks.models.windows import Window
from tasks.trainers.articles import Asked, Material, contains_answer
from tasks.trainers.cloze import CANDIDATE
from tasks.trainers.examples import Example, Sampler

RIGHT = 0.5
"""An answer is right if its token F1 with a gold answer is at least this."""
READ_RIGHT = 0.3
"""Share of the right answers that are the reader's."""
WRONG_WEIGHTS = (0.5, 0.3, 0.2)
"""Of wrong answers to a context with the right one: the reader's, another question's, any name or number."""
STRAY_WEIGHTS = (0.6, 0.2, 0.2)
"""Of answers to a context without the answer: the reader's, the gold answer, another question's."""


@dataclass(frozen=True, slots=True)
class LabelledCandidate:
    """A candidate with its true ISREL, ISSUP and ISUSE."""

    candidate: Candidate
    relevant: bool
    supported: bool
    useful: bool


@dataclass(frozen=True, slots=True)
class _Draft:
    """A candidate. If `read` is not empty, the reader still has to answer from that text."""

    asked: Asked
    context: str
    relevant: bool
    answer: str = ""
    read: str = ""
    wrong: bool = False
    """Whether the draft is dropped if its answer turns out right."""


class JudgementSampler:
    """Draws different candidates for every pass over the questions. The same seed and pass give the same candidates."""

    def __init__(self, material: Material, negatives: float, seed: int, reader: Generator) -> None:
        self.sampler, self.seed, self.reader = Sampler(material, negatives, seed), seed, reader
        self.golds: dict[int, list[str]] = {}
        for asked in material.questions:
            self.golds.setdefault(asked.passage, []).extend(dict.fromkeys(asked.answers))

    def judgements(self, epoch: int) -> list[LabelledCandidate]:
        """The candidates of one pass."""
        draw = random.Random(f"{self.seed}/{epoch}/judgements")
        drafts = [
            draft for asked, example in self.sampler.examples(epoch) for draft in self._drafts(asked, example, draw)
        ]
        prompts = [Prompt("", draft.asked.question, (draft.read,)) for draft in drafts if draft.read]
        answers = iter(self.reader.generate(prompts))
        finished = ((draft, next(answers).text if draft.read else draft.answer) for draft in drafts)
        return [judgement for draft, answer in finished if (judgement := _labelled(draft, answer))]

    def _drafts(self, asked: Asked, example: Example, draw: random.Random) -> Iterator[_Draft]:
        context = example.context
        if not example.spans:
            yield self._stray(asked, context, draw)
            return
        start, end = draw.choice(example.spans)
        if draw.random() < READ_RIGHT:
            yield _Draft(asked, context, True, read=context)
        else:
            yield _Draft(asked, context, True, context[start:end])
        yield self._wrong(asked, context, draw)

    def _wrong(self, asked: Asked, context: str, draw: random.Random) -> _Draft:
        left = without_answers(context, asked.answers)
        others = [text for text in self.golds[asked.passage] if text in left]
        names = [match.group() for match in CANDIDATE.finditer(left)]
        kind = draw.choices(range(3), WRONG_WEIGHTS)[0]
        for pool in (others, names)[kind - 1 :] if kind else ():
            if pool:
                return _Draft(asked, context, True, draw.choice(pool), wrong=True)
        return _Draft(asked, context, True, read=left, wrong=True)

    def _stray(self, asked: Asked, context: str, draw: random.Random) -> _Draft:
        kind = draw.choices(range(3), STRAY_WEIGHTS)[0]
        if kind == 0:
            return _Draft(asked, context, False, read=context)
        pool = asked.answers if kind == 1 else self.golds[asked.passage]
        return _Draft(asked, context, False, draw.choice(pool))


def _labelled(draft: _Draft, answer: str) -> LabelledCandidate | None:
    """None if the answer is empty, or if it must be wrong but is nearly right."""
    useful = is_right(answer, draft.asked.answers)
    if not answer or (draft.wrong and (useful or contains_answer(answer, draft.asked.answers))):
        return None
    candidate = Candidate(draft.asked.question, draft.context, answer)
    return LabelledCandidate(candidate, draft.relevant, draft.relevant and useful, useful)


def is_right(answer: str, golds: Iterable[str]) -> bool:
    """Whether an answer has a token F1 of at least `RIGHT` with a gold answer."""
    normalised, f1 = normalise(answer), F1(F1.Options())
    return bool(normalised) and any(f1.match(answer, normalised, normalise(gold)) >= RIGHT for gold in golds)


def without_answers(text: str, answers: Sequence[str]) -> str:
    """The text without the gold answers."""
    pattern = "|".join(re.escape(answer) for answer in sorted(answers, key=len, reverse=True))
    return re.sub(pattern, "", text, flags=re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Aspects:
    """A window and its ISREL, ISSUP and ISUSE."""

    window: Window
    labels: tuple[bool, bool, bool]


def aspects(tokenizer: Tokenizer, judgements: Sequence[LabelledCandidate]) -> list[Aspects]:
    """A relevant context of several windows is left out: it is not known which window has the answer."""
    windows = judged_windows(tokenizer, [judgement.candidate for judgement in judgements])
    return [
        Aspects(window, (judgement.relevant, judgement.supported, judgement.useful))
        for judgement, parts in zip(judgements, windows, strict=True)
        if len(parts) == 1 or not judgement.relevant
        for window in parts
    ]
