"""`cxmi`: questions with answers marked in their passages → the weights of the refiner `cxmi` (FilCo's filter).

FilCo (Wang et al., 2023, arXiv 2311.08377) trains a model to give, from a question and what was retrieved for it, the
sentence of the largest CXMI (cxmi_labels.py). Here the passages that BM25 ranks highest for a question are its hits, of
those that are neither held out nor for choosing; and a classifier learns, of one hit at a time, whether the gold
context is in it, and which of its sentences that is. Every question gives the hit with its gold context, if it has one,
and some of its others. Of some hits one sentence alone is read, as where sentences are retrieved.

The training begins with a reader's weights, and so the articles that it holds out must have been held out from that
reader. The threshold of the refiner is the one with the best F1 of the sentences that it passes on, on the articles
that choose the weights.
"""

import logging
import random
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from vitalfew.configs.options import Batching
from vitalfew.configs.section import ModelName
from vitalfew.tasks.models.readings import Memory, remembering
from vitalfew.tasks.models.small.reader import FilterModel
from vitalfew.tasks.models.small.sentence_filter import Request, SentenceFilter, parts_of
from vitalfew.tasks.models.small.tuned import settings_file
from vitalfew.tasks.models.small.windows import Batch, PairWindow
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.trainers.articles import Material
from vitalfew.tasks.trainers.bert import FromReader, FromReaderOptions
from vitalfew.tasks.trainers.cxmi_labels import (
    CausalLikelihood,
    Judged,
    ReaderLikelihood,
    Scorer,
    best_threshold,
    figures,
    judged,
)
from vitalfew.tasks.trainers.examples import marginal

logger = logging.getLogger("vitalfew")

CARD_QUESTIONS = 150
ALONE = 0.25
"""The share of hits of which one sentence is read alone."""


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
