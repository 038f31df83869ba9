"""train_reader: questions with answers marked in their passages → the weights of `reader` and their card.

One pass over clozes, then `epochs` over the questions; after each the questions of the choosing articles are asked, and
the best weights so far lie in the output directory. A run that was killed goes on from its checkpoint, to the same end.
"""

import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from configs.evaluation import Generate
from configs.loading import ConfigError
from configs.training import TrainReader
from storage.artifacts import fingerprint
from storage.parquet import checksum, write_atomically, write_json
from tasks.datasets.base import Record
from tasks.encoders.device import choose_device, choose_dtype
from tasks.generators.reader import ADAPTER, SETTINGS, Reader, base_directory
from tasks.generators.reader_model import ReaderModel, read_tokenizer
from tasks.specification import parse_dataset
from tasks.stage import Progress
from tasks.training.articles import Material, read_material, split_articles
from tasks.training.card import write_card
from tasks.training.cloze import clozes
from tasks.training.examples import Sampler
from tasks.training.quality import Quality, measure, sample
from tasks.training.steps import Learner, labelled, shuffled_batches

logger = logging.getLogger("vitalfew")

CHECKPOINT, CANDIDATE = "checkpoint.safetensors", "candidate"
DROPOUT = 0.1
SAVE_EVERY = 100
"""Steps between checkpoints."""
CHOOSING_CONTEXTS, CARD_CONTEXTS = 3, (1, 10)
CARD_QUESTIONS = 500
"""Questions that are asked with several contexts; all are asked with their gold passage alone."""

Expect = Callable[[int], Any]


@dataclass
class Position:
    """How far a training is: the pass, the batch in it, and the best F1 of a finished pass."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    best: float = -1.0


class Training:
    """One training: its material, its learner and where it stands."""

    def __init__(self, parameters: TrainReader) -> None:
        self.parameters, self.out = parameters, parameters.out
        self.device = choose_device(parameters.device)
        self.threads = parameters.threads or os.cpu_count() or 1
        self.base = base_directory(parameters.base)
        self.whole = read_material(_records(parameters.datasets), _records(parameters.passages))
        self.held_out, self.choosing = split_articles(
            self.whole, parameters.held_out, parameters.choosing, parameters.seed
        )
        learnt = self.whole.without([*self.held_out, *self.choosing])
        asked = [clozes(learnt, parameters.clozes, parameters.seed)] if parameters.clozes else []
        materials = [Material(learnt.passages, some) for some in asked] + [learnt]
        samplers = [Sampler(material, parameters.negatives, parameters.seed) for material in materials]
        self.passes = samplers + samplers[-1:] * (parameters.epochs - 1)
        self.position = Position()
        self.learner = self._learner()

    def _learner(self) -> Learner:
        torch.manual_seed(self.parameters.seed)
        dtype = choose_dtype(self.parameters.precision, self.device)
        model = ReaderModel(self.base, dtype, DROPOUT)
        model.prepare_for_training(self.parameters.rank)
        self.tokenizer = read_tokenizer(self.base)
        return Learner(model.to(self.device), self.tokenizer, self.parameters.learning_rate, self.parameters.seed)

    @property
    def checkpoint(self) -> Path:
        return self.out / CHECKPOINT

    def _identity(self) -> str:
        """Of what decides the weights: a checkpoint of anything else is of no use."""
        parameters = self.parameters
        datasets = [parse_dataset(each)[1] for each in (*parameters.datasets, *parameters.passages)]
        files = [checksum(file) for dataset in datasets for file in dataset.files()]
        config = parameters.model_dump(mode="json", exclude={"out", "threads", "device", "precision"})
        return fingerprint(config=config, files=files)

    def resume(self) -> None:
        """Go on from the checkpoint, where there is one. Raises ConfigError where it is of another training."""
        if not self.checkpoint.exists():
            return
        with safe_open(self.checkpoint, "pt") as file:
            notes = file.metadata()
        if notes["identity"] != self._identity():
            raise ConfigError(
                f"{self.checkpoint} is of a training with other settings or data; name another directory with --out, "
                "or remove it to begin anew"
            )
        self.learner.restore(self.checkpoint)
        self.position = Position(int(notes["epoch"]), int(notes["batch"]), int(notes["step"]), float(notes["best"]))

    def save(self) -> None:
        notes = {name: str(value) for name, value in vars(self.position).items()}
        self.learner.save(self.checkpoint, {**notes, "identity": self._identity()})

    def run(self, progress: Progress, expect: Expect) -> None:
        """All passes that are left; `progress` counts windows of the pass under way."""
        while self.position.epoch < len(self.passes) and not self._spent():
            self._pass(progress, expect)
            self._choose()
            self.position = Position(self.position.epoch + 1, 0, self.position.step, self.position.best)
            self.save()

    def _spent(self) -> bool:
        """Whether the steps that were allowed are taken."""
        return self.parameters.steps is not None and self.position.step >= self.parameters.steps

    def _pass(self, progress: Progress, expect: Expect) -> None:
        epoch = self.position.epoch
        torch.set_num_threads(self.threads)
        rows = labelled(self.tokenizer, self.passes[epoch].examples(epoch))
        draw = random.Random(f"{self.parameters.seed}/{epoch}/batches")
        steps = shuffled_batches(rows, self.parameters.batch_tokens, draw)
        expect(len(rows))
        for number, batch in enumerate(steps):
            if self._spent():
                return
            if number >= self.position.batch:
                done = (epoch + number / len(steps)) / len(self.passes)
                if self.parameters.steps:
                    done = max(done, self.position.step / self.parameters.steps)
                self.learner.step(batch, len(rows) / len(steps), done, self.position.step)
                self.position.batch, self.position.step = number + 1, self.position.step + 1
                if self.position.step % SAVE_EVERY == 0:
                    self.save()
            progress(len(batch), sum(len(row.window.ids) for row in batch))

    def _choose(self) -> None:
        """Keep the weights if they answer the choosing articles' questions better than any before."""
        candidate = self.out / CANDIDATE
        write_reader(candidate, self.learner.model, self.parameters.base)
        choosing = self.whole.of(self.choosing)
        asked = sample(choosing.questions, self.parameters.check_questions, self.parameters.seed)
        quality = measure(self.reader(candidate), Material(choosing.passages, asked), CHOOSING_CONTEXTS)
        logger.info("pass %d of %d: EM %.1f, F1 %.1f", self.position.epoch + 1, len(self.passes), *quality.scores)
        if quality.f1 >= self.position.best:
            self.position.best = quality.f1
            for name in (ADAPTER, SETTINGS):
                (candidate / name).replace(self.out / name)
        shutil.rmtree(candidate)

    def reader(self, directory: Path) -> Reader:
        config = Generate(model=str(directory), device=self.parameters.device, precision=self.parameters.precision)
        reader = Reader(config)
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
    training = Training(parameters)
    training.resume()
    training.run(progress, expect)
    return training.finish(progress, expect)


def write_reader(directory: Path, model: ReaderModel, base: str) -> None:
    """Weights as float16 and what they are to be laid over."""
    tensors = {name: each.detach().half().contiguous().cpu() for name, each in model.trained().items()}
    write_json(directory / SETTINGS, {"base": base})
    write_atomically(directory / ADAPTER, lambda temporary: save_file(tensors, temporary))


def _records(specifications: Sequence[str]) -> Iterator[Record]:
    for each in specifications:
        for _, record in parse_dataset(each)[1].records():
            yield record
