"""Training examples from questions: a question with a context that has its answer, or with a distractor; as windows.

A context is a run of sentences, as retrieval returns them: one sentence (ParetoRAG), a whole passage, or something in
between. Distractors are drawn from the answer's own passage, from its article, and from the passages that BM25
retrieves for the question anywhere else; no distractor contains the text of an answer.

`clozes` generates questions from any text, for training before the real questions, of which there are few: noisy clozes
(Lewis et al., 2019, "Unsupervised Question Answering by Cloze Translation", arXiv 1906.04980, sections 2.1-2.3.2). A
name or a number is removed from a sentence, a question word for its kind is put in front, and some of the other words
are dropped. Deviations: names and numbers are recognised by their spelling, not by a tagger, and the words keep their
order.
"""

import logging
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import bm25s
import torch
from tokenizers import Tokenizer
from torch import Tensor

from vitalfew.tasks.models.small.windows import PairWindow, encoded, windows
from vitalfew.tasks.retrievers.keywords import words
from vitalfew.tasks.trainers.articles import CharSpan, MarkedQuestion, Material, Text, contains_answer

logging.getLogger("bm25s").setLevel(logging.WARNING)  # otherwise it logs every index

HARD = 9
"""Passages that BM25 retrieves for a question: the hardest distractors."""
SHAPES = ("sentence", "passage", "run")
SHAPE_WEIGHTS = (0.5, 0.2, 0.3)


@dataclass(frozen=True, slots=True)
class SpanExample:
    """`spans`: half-open character ranges of the answer in the context; empty if the context lacks the answer."""

    question: str
    context: str
    spans: tuple[CharSpan, ...] = ()


class Sampler:
    """Draws different contexts for every pass over the questions. The same seed and pass give the same examples."""

    def __init__(self, material: Material, negatives: float, seed: int) -> None:
        self.material, self.negatives, self.seed = material, negatives, seed
        self.hard = hard_passages(material)
        self.articles: dict[str, list[int]] = {}
        for number, text in material.passages.items():
            self.articles.setdefault(text.article, []).append(number)

    def examples(self, epoch: int) -> Iterator[tuple[MarkedQuestion, SpanExample]]:
        """The examples of one pass, with the question that an example comes from."""
        draw = random.Random(f"{self.seed}/{epoch}")
        for asked, hard in zip(self.material.questions, self.hard, strict=True):
            text = self.material.passages[asked.passage]
            yield asked, with_answer(asked, text, draw)
            count = int(self.negatives) + (draw.random() < self.negatives % 1)
            for _ in range(count):
                context = self._distractor(asked, text, hard, draw)
                if not contains_answer(context, asked.answers):
                    yield asked, SpanExample(asked.question, context)

    def _distractor(self, asked: MarkedQuestion, own: Text, hard: Sequence[int], draw: random.Random) -> str:
        """`own`: the passage of the question; `hard`: the passages that are hard to tell from it."""
        kind = draw.random()
        others = [each for each in own.sentences if not any(_overlap(each, span) for span in asked.spans)]
        if kind < 0.4 and others:
            start, end = draw.choice(others)
            return own.text[start:end]
        pool = hard if kind < 0.8 and hard else self.articles[own.article]
        text = self.material.passages[draw.choice(pool)]
        first = draw.randrange(len(text.sentences))
        return _run(text, first, first, draw)[0]


def with_answer(asked: MarkedQuestion, text: Text, draw: random.Random) -> SpanExample:
    """The question with sentences of its passage that contain one of its answers in full."""
    start, end = draw.choice(asked.spans)
    touched = [number for number, sentence in enumerate(text.sentences) if _overlap(sentence, (start, end))]
    context, offset = _run(text, touched[0], touched[-1], draw)
    inside = [(first - offset, last - offset) for first, last in asked.spans]
    spans = tuple(span for span in inside if span[0] >= 0 and span[1] <= len(context))
    return SpanExample(asked.question, context, spans)


def _run(text: Text, first: int, last: int, draw: random.Random) -> tuple[str, int]:
    """Sentences `first` to `last` with none, some or all of those around them, and their first character."""
    shape = draw.choices(SHAPES, SHAPE_WEIGHTS)[0]
    if shape == "passage":
        first, last = 0, len(text.sentences) - 1
    elif shape == "run":
        first, last = draw.randint(0, first), draw.randint(last, len(text.sentences) - 1)
    start, end = text.sentences[first][0], text.sentences[last][1]
    return text.text[start:end].rstrip(), start


def _overlap(one: CharSpan, other: CharSpan) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def hard_passages(material: Material) -> list[list[int]]:
    """For every question, the passages without its answer that BM25 ranks highest, at most `HARD`."""
    numbers, texts = list(material.passages), [text.text for text in material.passages.values()]
    rankings = ranked(texts, material.questions, 2 * HARD)
    return [
        [numbers[place] for place in ranking if not contains_answer(texts[place], asked.answers)][:HARD]
        for asked, ranking in zip(material.questions, rankings, strict=True)
    ]


def ranked(texts: Sequence[str], questions: Sequence[MarkedQuestion], k: int) -> list[list[int]]:
    """For every question, the numbers of the `k` texts that BM25 ranks highest, best first."""
    index = bm25s.BM25()
    index.index(words(texts), show_progress=False)
    queries = words([asked.question for asked in questions])
    numbers, _ = index.retrieve(queries, k=min(k, len(texts)), show_progress=False)
    return numbers.tolist()


NAME = r"[A-Z][\w’'-]*(?:(?: (?:of|the|de|and|von|van))* [A-Z][\w’'-]*)*"
NUMBER = r"\d[\d,.]*\d|\d"
CANDIDATE = re.compile(rf"(?<![\w-])(?:{NAME}|{NUMBER})(?![\w-])")
YEAR = re.compile(r"1\d{3}|20\d{2}")
DROPPED = 0.3
"""Share of the words that are left out of a question."""
REACH = 10
"""The maximal number of words on either side of the answer that go into a question."""


def clozes(material: Material, per_passage: int, seed: int) -> list[MarkedQuestion]:
    """Generate `per_passage` questions on every passage, or fewer if it has fewer names and numbers."""
    draw, questions = random.Random(seed), []
    for number, text in sorted(material.passages.items()):
        gaps = [
            (start, end, match.span())
            for start, end in text.sentences
            for match in CANDIDATE.finditer(text.text, start, end)
            # The first word of a sentence has a capital, name or not.
            if match.start() > start or " " in match.group()
        ]
        for start, end, (first, last) in draw.sample(gaps, min(per_passage, len(gaps))):
            answer = text.text[first:last]
            left, right = text.text[start:first].split()[-REACH:], text.text[last:end].split()[:REACH]
            kept = [word for word in left + right if draw.random() >= DROPPED]
            if kept:
                question = f"{_question_word(answer, draw)} {' '.join(kept)}?"
                questions.append(MarkedQuestion(question, (answer,), number, ((first, last),)))
    return questions


def _question_word(answer: str, draw: random.Random) -> str:
    if YEAR.fullmatch(answer):
        return draw.choice(("when", "what year", "in what year"))
    if answer[0].isdigit():
        return draw.choice(("how many", "what", "how much"))
    return draw.choice(("who", "what", "where", "which"))


@dataclass(frozen=True, slots=True)
class SpanWindow:
    """A window of a question with a context, and the positions of the first and last tokens of its answers, if it has
    any; or, where `useful` is not None, a window of a question with an answer, and whether that is right."""

    window: PairWindow
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    useful: bool | None = None


def labelled(tokenizer: Tokenizer, examples: Iterable[SpanExample]) -> list[SpanWindow]:
    """The windows of examples, with the positions of their answers."""
    examples = list(examples)
    encodings = encoded(tokenizer, [text for example in examples for text in (example.question, example.context)])
    rows = []
    for example in examples:
        context = encodings[example.context]
        tokens = [(context.char_to_token(start), context.char_to_token(end - 1)) for start, end in example.spans]
        spans = [(first, last) for first, last in tokens if first is not None and last is not None]
        for window in windows(tokenizer, encodings[example.question], context):
            inside = [(first, last) for first, last in spans if window.start <= first and last < window.stop]
            starts = sorted({window.position(first) for first, _ in inside})
            ends = sorted({window.position(last) for _, last in inside})
            rows.append(SpanWindow(window, tuple(starts), tuple(ends)))
    return rows


def span_loss(start: Tensor, end: Tensor, rows: Sequence[SpanWindow]) -> Tensor:
    """Minus the log-likelihood of the gold starts and ends, halved, summed over the rows that have an answer."""
    known = [number for number, row in enumerate(rows) if row.starts]
    loss = torch.zeros((), device=start.device)
    for logits, gold in ((start, [rows[n].starts for n in known]), (end, [rows[n].ends for n in known])):
        if known:
            loss = loss - marginal(logits[known], gold).sum() / 2
    return loss


def marginal(logits: Tensor, gold: Sequence[tuple[int, ...]]) -> Tensor:
    """The log of the summed probability of a row's gold positions: float32 (n, longest) → (n,)."""
    right = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
    for row, positions in enumerate(gold):
        right[row, list(positions)] = True
    return logits.log_softmax(-1).masked_fill(~right, -torch.inf).logsumexp(-1)
