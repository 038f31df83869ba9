"""`cxmi`: questions with answers marked in their passages → the weights of the refiner `cxmi` (FilCo's filter).

FilCo (Wang et al., 2023, arXiv 2311.08377) trains a model to give, from a question and what was retrieved for it, the
sentence of the largest CXMI. Here the passages that BM25 ranks highest for a question are its hits, of
those that are neither held out nor for choosing; and a classifier learns, of one hit at a time, whether the gold
context is in it, and which of its sentences that is. Every question gives the hit with its gold context, if it has one,
and some of its others. Of some hits one sentence alone is read, as where sentences are retrieved.

The training begins with a reader's weights, and so the articles that it holds out must have been held out from that
reader. The threshold of the refiner is the one with the best F1 of the sentences that it passes on, on the articles
that choose the weights.

CXMI(t) = log p(answer | question, t) - log p(answer | question) (section 2). The sentence of the largest is the gold
context if its CXMI is above `least` (0: the sentence helps); of equal ones the first, in the order of the hits. If none
is, the question has no gold context, and no sentence of it should be passed on.

p is a causal language model's, of the first gold answer, as in FilCo; or by default the reader's (likelihood.py), of
every gold answer. A reader has no p(answer | question): it answers out of a text. In its place stands the probability
with which the reader says that an empty text has the answer, as if it then knew which. That is at least as much as any
answer's could be, so that a sentence helps only where the answer is likelier than that.
"""

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching
from vitalfew.configs.section import ModelName
from vitalfew.tasks.generators.reader import Reader, Told, log_likelihoods, occurrences
from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.surprise import Surprise
from vitalfew.tasks.models.readings import Memory, remembering
from vitalfew.tasks.models.small.reader import FilterModel
from vitalfew.tasks.models.small.sentence_filter import Request, SentenceFilter, parts_of
from vitalfew.tasks.models.small.tuned import settings_file
from vitalfew.tasks.models.small.windows import (
    CONTEXT,
    MAX_QUESTION,
    QUESTION,
    Batch,
    PairWindow,
    encoded,
    padded,
    special,
)
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.trainers.articles import MarkedQuestion, Material
from vitalfew.tasks.trainers.bert import FromReader, FromReaderOptions
from vitalfew.tasks.trainers.examples import marginal, ranked

logger = logging.getLogger("vitalfew")

CARD_QUESTIONS = 150
ALONE = 0.25
"""The share of hits of which one sentence is read alone."""


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
        return [-float(surprise.sum()) for _, surprise in self.surprise.read(asked, no_tick)]


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


class Lesson(NamedTuple):
    """A window of a question and a hit. `gold`: the first position of the gold context and one past its last."""

    window: PairWindow
    gold: tuple[int, int] | None


class CxmiTrainer(FromReader):
    """The sentence filter of the refiner `cxmi`: which sentence of the hits makes the gold answer likeliest (FilCo)."""

    class Options(FromReaderOptions, extra="forbid"):
        negatives: float = Field(
            1, ge=0, description="Mean number of hits without the gold context per question and pass."
        )
        top_k: int = Field(5, ge=1, description="Hits per question whose sentences are labelled.")
        questions: int | None = Field(
            None, ge=1, description="Maximum number of questions to learn from; default: all."
        )
        layers: int = Field(
            6, ge=1, description="Number of encoder layers to train, counted from the last; the others stay fixed."
        )
        least: float = Field(0.0, description="CXMI above which the best sentence is the gold context (nats).")
        scorer: ModelName | None = Field(
            None,
            description="Causal language model that labels the sentences, by its likelihood of the answer. A preset "
            "of generator `transformers`, a Hugging Face name, or a directory. Default: the bundled reader.",
        )

    use: ClassVar[str] = "refine.model"
    version: ClassVar[str] = "2"
    called: ClassVar[str] = "the filter"
    headings: ClassVar[dict[str, str]] = {
        "by": "sentences scored by",
        "with_gold": "with a gold context",
        "top_is_gold": "best is gold",
        "top_has_answer": "best has the answer",
        "any_has_answer": "any has the answer",
        "passed": "passed on",
        "passed_have_answer": "passed on have the answer",
    }

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.causal = CausalLikelihood(options.scorer, Batching(**self.computing)) if options.scorer else None
        self.memory = Memory()

    def identity(self) -> dict[str, Any]:
        return super().identity() | ({"scorer": self.causal.identity()} if self.causal else {})

    def network(self) -> FilterModel:
        model: FilterModel = self.prepared(FilterModel)
        model.fix(max(0, len(model.encoder.encoder.layer) - self.options.layers))
        return model

    def _judged(self, material: Material, questions: int | None) -> list[Judged]:
        """Some of the material's questions, with hits out of the material."""
        asked = material.sample(questions or len(material.questions), self.options.seed)
        score: Scorer = self.causal or ReaderLikelihood(self.for_inference(self.reader))
        found = judged(material, asked, self.options.top_k, score, self.options.least)
        torch.set_num_threads(self.threads)
        return found

    def _of(self, titles: Sequence[str], questions: int) -> list[Judged]:
        """Questions of these articles; hits are of all articles."""
        return self._judged(Material(self.whole.passages, self.part(titles).questions), questions)

    @cached_property
    def _learnt(self) -> list[Judged]:
        return self._judged(self.learnt, self.options.questions)

    @cached_property
    def _chosen_by(self) -> list[Judged]:
        return self._of(self.split.choosing, self.options.check_questions)

    def rows(self, epoch: int) -> list[Lesson]:
        examples = [*drawn(self._learnt, self.options.negatives, random.Random(f"{self.options.seed}/{epoch}"))]
        parts = parts_of(self.tokenizer, [request for request, _ in examples])
        lessons = []
        for (_, number), windows in zip(examples, parts, strict=True):
            for part in windows:
                place = next(((first, stop) for own, first, stop in part.places if own == number), None)
                if place is None or number in part.whole:  # of a cut gold context nothing can be said
                    lessons.append(Lesson(part.window, place))
        return lessons

    def losses(self, rows: Sequence[Lesson], batch: Batch) -> dict[str, Tensor]:
        token, window = self.model(batch)
        with_gold = [number for number, row in enumerate(rows) if row.gold]
        places = [tuple(range(*row.gold)) for row in rows if row.gold]
        which = -marginal(token[with_gold], places).sum() if places else torch.zeros((), device=self.device)
        return {"has": self.cross_entropy(window, [row.gold is not None for row in rows]), "which": which}

    def quality(self, directory: Path) -> float:
        """The share of questions with a gold context whose most probable sentence it is."""
        asked = self._chosen_by
        row = figures("cxmi", asked, self._probabilities(directory, asked))
        logger.info("validation articles: the best sentence is the gold context in a share of %.3f", row["top_is_gold"])
        return float(row["top_is_gold"])

    def _probabilities(self, directory: Path, asked: Sequence[Judged], tick: Tick = no_tick) -> list[list[float]]:
        """The probability of every question's sentences."""
        model = self.for_inference(SentenceFilter(str(directory), Batching(**self.computing), "train"))
        requests: list[list[Request]] = [[(one.question, *hit) for hit in one.hits] for one in asked]
        with remembering(self.memory):
            found = iter(model.read([request for own in requests for request in own], tick))
        return [[float(value) for _ in own for value in next(found)] for own in requests]

    def finish(self, directory: Path, tick: Tick) -> dict[str, bytes]:
        threshold = best_threshold(self._chosen_by, self._probabilities(directory, self._chosen_by))
        asked = self._of(self.split.held_out, CARD_QUESTIONS)
        rows = [figures("cxmi", asked, self._probabilities(directory, asked, tick), threshold)]
        rows += [figures(name, asked, scores) for name, scores in self._others(asked, tick)]
        shown: dict[str, Any] = {"labels": self._learnt, "threshold": threshold, "choosing": len(self._chosen_by)}
        return self.described("cxmi", rows, files=settings_file(self.base, threshold=threshold), **shown)

    def _others(self, asked: Sequence[Judged], tick: Tick) -> Iterator[tuple[str, list[list[float]]]]:
        """The scores that the bundled encoder and critic give the same sentences, read one by one."""
        from vitalfew.tasks.encoders.transformer import MiniLM
        from vitalfew.tasks.raters.embedded import Embedded

        encoder = MiniLM(MiniLM.Options(**self.computing))
        texts = [*dict.fromkeys(text for one in asked for text in one.sentences)]
        vectors = dict(zip(texts, encoder.encode(texts).vectors, strict=True))
        queries = encoder.encode_questions([one.question for one in asked]).vectors
        pairs = zip(queries, asked, strict=True)
        yield "minilm", [[float(query @ vectors[text]) for text in one.sentences] for query, one in pairs]
        critic = self.for_inference(Embedded(Embedded.Options(**self.computing)))
        relevance = iter(critic.relevance([(one.question, text) for one in asked for text in one.sentences], tick))
        yield "isrel", [[next(relevance) for _ in one.sentences] for one in asked]


def drawn(asked: Sequence[Judged], negatives: float, draw: random.Random) -> Iterator[tuple[Request, int | None]]:
    """The texts of a pass, each with the number of its gold context, if it has one."""
    for one in asked:
        hits = [(hit, number) for hit, number in _numbered(one) if hit]
        others = [hit for hit in hits if hit[1] is None]
        count = int(negatives) + (draw.random() < negatives % 1)
        some = draw.sample(others, min(count, len(others)))
        for hit, number in [*(each for each in hits if each[1] is not None), *some]:
            if draw.random() < ALONE:
                alone = number if number is not None and draw.random() < 0.5 else draw.randrange(len(hit))
                yield (one.question, hit[alone]), 0 if alone == number else None
            else:
                yield (one.question, *hit), number


def _numbered(one: Judged) -> Iterator[tuple[tuple[str, ...], int | None]]:
    """The hits of a question, each with the number of its gold context, if it has one."""
    first = 0
    for hit in one.hits:
        number = None if one.gold is None else one.gold - first
        yield hit, number if number is not None and 0 <= number < len(hit) else None
        first += len(hit)
