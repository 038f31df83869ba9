"""train_reader: questions with answers marked in their passages → the weights of `reader` and their card.

One pass over clozes, then `epochs` over the questions.
"""

import logging
from pathlib import Path

import torch

from configs.training import TrainReader
from tasks.generators.reader import Reader
from tasks.models.reader_model import ReaderModel
from tasks.models.tuned import base_directory, read_tokenizer
from tasks.stage import Progress
from tasks.trainers.articles import Material
from tasks.trainers.card import write_card
from tasks.trainers.cloze import clozes
from tasks.trainers.examples import Sampler
from tasks.trainers.quality import Quality, measure, sample
from tasks.trainers.spans import Labelled, SpanLearner, labelled
from tasks.trainers.training import DROPOUT, Expect, Training

logger = logging.getLogger("vitalfew")

CHOOSING_CONTEXTS, CARD_CONTEXTS = 3, (1, 10)
CARD_QUESTIONS = 500
"""Questions that are asked with several contexts; all are asked with their gold passage alone."""


class ReaderTraining(Training[ReaderModel, Labelled]):
    """The training of a reader."""

    def __init__(self, parameters: TrainReader) -> None:
        super().__init__(parameters)
        self.parameters, self.base = parameters, parameters.base
        asked = [clozes(self.learnt, parameters.clozes, parameters.seed)] if parameters.clozes else []
        materials = [Material(self.learnt.passages, some) for some in asked] + [self.learnt]
        self.samplers = [Sampler(material, parameters.negatives, parameters.seed) for material in materials]
        self.passes = len(asked) + parameters.epochs
        base = base_directory(self.base)
        torch.manual_seed(parameters.seed)
        model = ReaderModel(base, self.dtype, DROPOUT)
        model.prepare_for_training(parameters.rank)
        self.tokenizer = read_tokenizer(base)
        self.learner = SpanLearner(model.to(self.device), self.tokenizer, parameters.learning_rate, parameters.seed)

    def rows(self, epoch: int) -> list[Labelled]:
        sampler = self.samplers[min(epoch, len(self.samplers) - 1)]
        return labelled(self.tokenizer, (example for _, example in sampler.examples(epoch)))

    def quality(self, directory: Path) -> float:
        """F1 in percent."""
        choosing = self.whole.of(self.choosing)
        asked = sample(choosing.questions, self.parameters.check_questions, self.parameters.seed)
        found = measure(self.reader(directory), Material(choosing.passages, asked), CHOOSING_CONTEXTS)
        logger.info("pass %d of %d: EM %.1f, F1 %.1f", self.position.epoch + 1, self.passes, *found.scores)
        return found.f1

    def reader(self, directory: Path) -> Reader:
        options = Reader.Options(
            model=str(directory), device=self.parameters.device, precision=self.parameters.precision
        )
        reader = Reader(options)
        reader.model.requires_grad_(False)  # loaded here, because that leaves it one thread
        torch.set_num_threads(self.threads)
        return reader

    def finish(self, progress: Progress, expect: Expect) -> list[Quality]:
        """Measure the best weights on the held-out articles, and write their card."""
        held_out = self.whole.of(self.held_out)
        some = sample(held_out.questions, CARD_QUESTIONS, self.parameters.seed)
        every = [Material(held_out.passages, held_out.questions), Material(self.whole.passages, some)]
        expect(sum(len(each.questions) for each in every))
        reader = self.reader(self.out)
        figures = [
            measure(reader, material, contexts, progress)
            for material, contexts in zip(every, CARD_CONTEXTS, strict=True)
        ]
        write_card(self.out, self.parameters, self.whole, (self.held_out, self.choosing), figures)
        return figures


def train_reader(
    parameters: TrainReader, progress: Progress = lambda r, t: None, expect: Expect = int
) -> list[Quality]:
    """Train, choose, measure on what was held out, and write weights and card to `parameters.out`.

    `expect` is told before each pass how many rows `progress` will count. Raises InputError and ConfigError.
    """
    training = ReaderTraining(parameters)
    training.resume()
    training.run(progress, expect)
    return training.finish(progress, expect)
