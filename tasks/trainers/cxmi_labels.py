"""FilCo's labels: the sentence of a question's hits that makes the gold answer likeliest (arXiv 2311.08377, sec. 2).

CXMI(t) = log p(answer | question, t) - log p(answer | question). The sentence of the largest is the gold context if its
CXMI is above `least` (0: the sentence helps); of equal ones the first, in the order of the hits. If none is, the
question has no gold context, and no sentence of it should be passed on.

p is a causal language model's, of the first gold answer, as in FilCo; or by default the reader's (likelihood.py), of
every gold answer. A reader has no p(answer | question): it answers out of a text. In its place stands the probability
with which the reader says that an empty text has the answer, as if it then knew which. That is at least as much as any
answer's could be, so that a sentence helps only where the answer is likelier than that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching
from vitalfew.tasks.generators.reader import Reader, Told, log_likelihoods, occurrences
from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.surprise import Surprise
from vitalfew.tasks.models.small.windows import CONTEXT, MAX_QUESTION, QUESTION, PairWindow, encoded, padded, special
from vitalfew.tasks.trainers.articles import MarkedQuestion, Material
from vitalfew.tasks.trainers.examples import ranked

THRESHOLDS = tuple(place / 20 for place in range(1, 20))

Scorer = Callable[[Sequence[Told]], Sequence[float]]
"""Returns log p(answer | question, text), or, without a text (""), log p(answer | question)."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A question with its hits as sentences, best hit first; `gold`: the gold context's number among all sentences."""

    question: str
    answers: tuple[str, ...]
    hits: tuple[tuple[str, ...], ...]
    gold: int | None

    @property
    def sentences(self) -> list[str]:
        return [sentence for hit in self.hits for sentence in hit]


def judged(
    material: Material, asked: Sequence[MarkedQuestion], top_k: int, score: Scorer, least: float
) -> list[Judged]:
    """The questions with the passages of the material that BM25 ranks highest for them, and their gold contexts."""
    asked = list({each.question: each for each in asked}.values())
    texts = [*material.passages.values()]
    rankings = ranked([text.text for text in texts], asked, top_k)
    sentences = [tuple(text.text[start:end] for start, end in text.sentences) for text in texts]
    found = [
        Judged(each.question, each.answers, tuple(sentences[place] for place in ranking), None)
        for each, ranking in zip(asked, rankings, strict=True)
    ]
    values = cxmi(score, found)
    return [replace(each, gold=gold(own, least)) for each, own in zip(found, values, strict=True)]


def cxmi(score: Scorer, asked: Sequence[Judged]) -> list[list[float]]:
    """The CXMI of every question's sentences, in nats."""
    values = iter(score([Told(one.question, text, one.answers) for one in asked for text in ("", *one.sentences)]))
    found = []
    for one in asked:
        without = next(values)
        found.append([next(values) - without for _ in one.sentences])
    return found


def gold(values: Sequence[float], least: float = 0.0) -> int | None:
    """The place of the largest value, the first of equals; None if it is not above `least`."""
    best = max(range(len(values)), key=values.__getitem__, default=None)
    return best if best is not None and values[best] > least else None


class ReaderLikelihood:
    """The likelihood of the gold answers by an extractive reader."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def __call__(self, told: Sequence[Told]) -> list[float]:
        found = log_likelihoods(self.reader, told)
        without = self._without([*dict.fromkeys(one.question for one in told if not one.text)])
        return [value if one.text else without[one.question] for one, value in zip(told, found, strict=True)]

    @torch.inference_mode()
    def _without(self, questions: Sequence[str]) -> dict[str, float]:
        """log P(an empty text has the answer) by question."""
        tokenizer = self.reader.tokenizer
        start, end = special(tokenizer, "[CLS]"), special(tokenizer, "[SEP]")
        rows = []
        for encoding in encoded(tokenizer, questions).values() if questions else ():
            head = (start, *encoding.ids[:MAX_QUESTION], end)
            rows.append(PairWindow((*head, end), (*(QUESTION,) * len(head), CONTEXT), len(head), 0, 0))
        found = dict.fromkeys(questions, 0.0)
        for places in batches([len(row.ids) for row in rows], self.reader.batch_tokens):
            batch = padded([rows[place] for place in places], special(tokenizer, "[PAD]"), self.reader.device)
            logits = torch.nn.functional.logsigmoid(self.reader.model(batch)[2]).tolist()
            found |= {questions[place]: logit for place, logit in zip(places, logits, strict=True)}
        return found


class CausalLikelihood:
    """The likelihood of the first gold answer by a causal language model."""

    def __init__(self, name: str, options: Batching) -> None:
        """Raises ConfigError."""
        try:
            self.surprise = Surprise(name, options, "scorer")
        except (EngineUnavailable, ConfigError, FileNotFoundError) as error:
            raise ConfigError(f"scorer={name}: {error}") from error

    def identity(self) -> dict[str, Any]:
        return self.surprise.identity()

    def __call__(self, told: Sequence[Told]) -> list[float]:
        contexts = [f"Context: {one.text.strip()}\n" if one.text else "" for one in told]
        asked = [
            (f"{context}Question: {one.question}\nAnswer:", f" {one.answers[0].strip()}")
            for context, one in zip(contexts, told, strict=True)
        ]
        return [-float(surprise.sum()) for _, surprise in self.surprise.read(asked, lambda tokens: None)]


def figures(
    by: str, asked: Sequence[Judged], scores: Sequence[Sequence[float]], threshold: float | None = None
) -> dict[str, Any]:
    """How well `scores`, named by `by`, separate the sentences of the questions' hits.

    `top_is_gold`: of those `with_gold`, the share whose best sentence is the gold context. Of all: `top_has_answer`,
    whose best sentence has a gold answer, `any_has_answer`, of whose sentences one has. `passed`: sentences a question
    that are passed on at the threshold, `passed_have_answer`: the share where a gold answer is among them; None without
    a threshold.
    """
    tops = [passed(own, None)[:1] for own in scores]
    gold = [(one.gold, top) for one, top in zip(asked, tops, strict=True) if one.gold is not None]
    kept = None if threshold is None else [passed(own, threshold) for own in scores]
    return {
        "by": by,
        "questions": len(asked),
        "with_gold": len(gold),
        "top_is_gold": _share([number in top for number, top in gold]),
        "top_has_answer": _with_answer(asked, tops),
        "any_has_answer": _with_answer(asked, [range(len(one.sentences)) for one in asked]),
        "passed": None if kept is None else round(sum(map(len, kept)) / max(1, len(kept)), 2),
        "passed_have_answer": None if kept is None else _with_answer(asked, kept),
    }


def passed(scores: Sequence[float], threshold: float | None) -> list[int]:
    """The numbers of the sentences that pass, best first, and of the best in any case; None: the best alone."""
    order = sorted(range(len(scores)), key=lambda number: -scores[number])
    return [number for number in order if threshold is not None and scores[number] >= threshold] or order[:1]


def best_threshold(asked: Sequence[Judged], scores: Sequence[Sequence[float]]) -> float:
    """The threshold with the best F1 of the passed sentences against the gold contexts; the lowest of equals."""
    gold = sum(one.gold is not None for one in asked)

    def f1(threshold: float) -> float:
        kept = [passed(own, threshold) for own in scores]
        right = sum(one.gold in own for one, own in zip(asked, kept, strict=True) if one.gold is not None)
        return 2 * right / max(1, gold + sum(map(len, kept)))

    return max(THRESHOLDS, key=f1)


def _with_answer(asked: Sequence[Judged], kept: Sequence[Sequence[int]]) -> float:
    """The share of questions of whose kept sentences one has a gold answer, as whole words."""
    pairs = zip(asked, kept, strict=True)
    return _share([any(occurrences(one.sentences[number], one.answers) for number in own) for one, own in pairs])


def _share(true: Sequence[bool]) -> float:
    return round(sum(true) / len(true), 4) if true else 0.0
