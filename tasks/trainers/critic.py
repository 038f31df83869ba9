"""train_critic: questions with answers marked in their passages → the weights of the critic `embedded` and their card.

It begins from a reader's weights and judges that reader's answers; so what is held out from the critic must have been
held out from the reader.
"""

import logging
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from configs.loading import ConfigError
from configs.training import TrainCritic
from tasks.critics.embedded import CriticModel, Embedded
from tasks.generators.reader import Reader
from tasks.models.tuned import read_tokenizer
from tasks.stage import Progress
from tasks.trainers.card import HELD_OUT, write_critic_card
from tasks.trainers.discrimination import UNITS, Discrimination, candidates, discrimination
from tasks.trainers.judgements import AspectLearner, Aspects, JudgementSampler, LabelledCandidate, aspects
from tasks.trainers.quality import sample
from tasks.trainers.training import DROPOUT, Expect, Training

logger = logging.getLogger("vitalfew")

CARD_QUESTIONS = 300


class CriticTraining(Training[CriticModel, Aspects]):
    """The training of a critic."""

    def __init__(self, parameters: TrainCritic) -> None:
        super().__init__(parameters)
        self.parameters, self.passes = parameters, parameters.epochs
        self.reader = self._reader()
        self.base = self.reader.weights.name
        self._check_held_out()
        self.sampler = JudgementSampler(self.learnt, parameters.negatives, parameters.seed, self.reader)
        begin = self.reader.weights.tensors()
        torch.manual_seed(parameters.seed)
        model = CriticModel(self.reader.weights.base, self.dtype, DROPOUT)
        model.prepare_for_training(next(len(each[0]) for name, each in begin.items() if name.endswith(".b")))
        model.begin_from(begin)
        self.tokenizer = read_tokenizer(self.reader.weights.base)
        self.learner = AspectLearner(model.to(self.device), self.tokenizer, parameters.learning_rate, parameters.seed)

    def _reader(self) -> Reader:
        model = str(self.parameters.reader) if self.parameters.reader else None
        return Reader(Reader.Options(model=model, device=self.parameters.device, precision=self.parameters.precision))

    def _check_held_out(self) -> None:
        """Raises ConfigError where the reader may have learnt from an article that is to be held out."""
        file = self.reader.directory / HELD_OUT
        unseen = set(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else set()
        if seen := sorted(set(self.held_out) - unseen):
            raise ConfigError(
                f"the reader in {self.reader.directory} may have learnt from {seen[0]!r}, which the critic holds out: "
                f"its {HELD_OUT} has no such title. Train a reader on the same data, with the same held_out and seed, "
                "and name it with --set reader=DIR"
            )

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "reader": self.reader.weights.digests()}

    def rows(self, epoch: int) -> list[Aspects]:
        return aspects(self.tokenizer, self.sampler.judgements(epoch))

    def _candidates(self, titles: list[str], questions: int) -> dict[str, list[LabelledCandidate]]:
        asked = sample(self.whole.of(titles).questions, questions, self.parameters.seed)
        return {unit: candidates(self.whole, asked, unit, self.reader) for unit in UNITS}

    @cached_property
    def _check(self) -> list[LabelledCandidate]:
        found = self._candidates(self.choosing, self.parameters.check_questions)
        return [judgement for each in found.values() for judgement in each]

    def quality(self, directory: Path) -> float:
        """The mean AUC of ISREL and ISSUP; 0 where the candidates are all of one kind."""
        found = discrimination(self.critic(directory), "both", self._check, resamples=0)
        isrel, issup, isuse, hard = (each.auc for each in found)
        figures = self.position.epoch + 1, self.passes, isrel, issup, hard, isuse
        logger.info("pass %d of %d: AUC of isrel %.3f, issup %.3f (relevant: %.3f), isuse %.3f", *figures)
        mean = (isrel + issup) / 2
        return mean if mean == mean else 0.0

    def critic(self, directory: Path) -> Embedded:
        options = Embedded.Options(
            model=str(directory), device=self.parameters.device, precision=self.parameters.precision
        )
        critic = Embedded(options)
        critic.model.requires_grad_(False)  # loaded here, because that leaves it one thread
        torch.set_num_threads(self.threads)
        return critic

    def finish(self, progress: Progress, expect: Expect) -> list[Discrimination]:
        """Measure the best weights on the held-out articles, and write their card."""
        every = self._candidates(self.held_out, CARD_QUESTIONS)
        expect(sum(map(len, every.values())))
        critic = self.critic(self.out)
        figures = [
            row for unit, judgements in every.items() for row in discrimination(critic, unit, judgements, progress)
        ]
        write_critic_card(self.out, self.parameters, self.whole, (self.held_out, self.choosing), figures)
        return figures


def train_critic(
    parameters: TrainCritic, progress: Progress = lambda r, t: None, expect: Expect = int
) -> list[Discrimination]:
    """Train, choose, measure on what was held out, and write weights and card to `parameters.out`.

    `expect` is told before each pass how many rows `progress` will count. Raises InputError, ConfigError and
    EngineUnavailable.
    """
    training = CriticTraining(parameters)
    training.resume()
    training.run(progress, expect)
    return training.finish(progress, expect)
