"""The base of Oreo's three trainings (arXiv 2502.13019, section 2), and `oreo_sft`, the first of them.

The policy writes an evidence text from a question and the chunks that were retrieved for it (models/small/policy.py).
The material is the stage `collect`'s, each training begins with the weights of the one before, and the pass whose texts
let the generator answer best on the articles that choose is taken.

`oreo_sft`, supervised fine-tuning: negative log-likelihood of the gold context (equation 1), the mean over the actions
of a step.
"""

import logging
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field, SerializeAsAny
from torch import Tensor

from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import ModelName
from vitalfew.configs.training import TrainConfig
from vitalfew.tasks.generators import prompts
from vitalfew.tasks.generators.base import ByEngine, Generator, Prompt
from vitalfew.tasks.metrics.answers import F1, has_answer, is_right, normalise
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.small.policies import PolicyName, Shape, begun_from, for_training, policy_files, read_policy
from vitalfew.tasks.models.small.policy import Policy, PolicySource, greedy
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.registry import make
from vitalfew.tasks.splitters.tokens import count_tokens
from vitalfew.tasks.trainers.base import Part, Tables, Trainer, Updates, of_pass
from vitalfew.tasks.trainers.oreo.collector import OreoExample, named, words
from vitalfew.tasks.trainers.splits import TrainingSplit

logger = logging.getLogger("vitalfew")


class Diverged(ValueError):
    """A loss that is not finite; the last checkpoint is kept."""


Material = tuple[OreoExample, PolicySource, list[int]]
"""An example as a policy reads it, and the actions that write its target."""
PartLoss = tuple[Tensor, Mapping[str, float], Mapping[str, Sequence[Mapping[str, Any]]]]
"""A loss, the losses that it is made of, if there are several, and rows of further tables."""


SHORT = 8
"""Words: a text of fewer may be no more than the answer."""
TOGETHER = 16
"""Questions whose texts are written together."""

_template = cache(prompts.source)


def answers(generator: Generator, asked: Sequence[tuple[str, str]]) -> list[Completion]:
    """A generator's answers to (question, evidence text). An empty text counts as no context.

    A language model is asked for short answers, because the reward compares words with those of short gold answers."""
    template = _template(Generator.prompt if isinstance(generator, ByEngine) else generator.prompt)
    given = []
    for question, text in asked:
        contexts = (text,) if text.strip() else ()
        given.append(Prompt(prompts.render(template, question, contexts), question, contexts))
    return generator.generate(given)


def answer_f1(text: str, gold: Sequence[str]) -> float:
    """ROUGE-1 of an answer, as F-measure over SQuAD's words, the best over the gold ones."""
    score, given = F1(F1.Options()), normalise(text)
    return max((score.match(text, given, normalise(one)) for one in gold), default=0.0)


def measure(
    policy: Policy,
    generator: Generator,
    rows: Sequence[OreoExample],
    limit: int,
    full: bool = False,
    tick: Tick = no_tick,
) -> dict[str, Any]:
    """Write texts greedily and let the generator answer from them; with `full`, also from the whole chunks.

    Returns means over the texts. `kept`: the share of texts with a gold answer; `tokens`: words and punctuation marks;
    `share`: their share of the whole chunks'; `short`: the share of texts under `SHORT` words; `grounded`: the share of
    texts whose words, names and numbers are all in the chunks; `f1`, `right`: the generator's answers from them;
    `full_right`: its answers from the whole chunks, or None.
    """
    asked = sorted(rows, key=lambda row: (row.size, row.question_id))  # of similar length in a batch
    texts: list[str] = []
    for start in range(0, len(asked), TOGETHER):
        some = asked[start : start + TOGETHER]
        sources = policy.read([row.question for row in some], [row.texts for row in some])
        with torch.inference_mode():
            drawn = greedy(policy, policy.encode(sources), limit)
        texts += [policy.write(source, one.actions).text for source, one in zip(sources, drawn, strict=True)]
        tick(len(some), sum(source.tokens for source in sources))
    replies = answers(generator, [(row.question, text) for row, text in zip(asked, texts, strict=True)])
    whole = [Prompt("\n".join(row.texts), row.question, tuple(row.texts)) for row in asked if full]
    from_all = generator.generate(whole) if whole else []
    pairs = [*zip(asked, texts, strict=True)]
    tokens = sum(map(count_tokens, texts))
    shown = sum(count_tokens(text) for row in asked for text in row.texts)
    told = [(reply.text, row.answers) for row, reply in zip(asked, replies, strict=True)]
    right = [is_right(reply.text, row.answers) for row, reply in zip(asked, from_all, strict=False)]

    def mean(values: Sequence[float]) -> float:
        return round(sum(values) / max(1, len(asked)), 4)

    return {
        "questions": len(asked),
        "kept": mean([has_answer(text, row.answers) for row, text in pairs]),
        "tokens": mean([tokens]),
        "share": round(tokens / max(1, shown), 4),
        "short": mean([len(text.split()) < SHORT for text in texts]),
        "grounded": mean([not (words(text) | named(text)) - words(" ".join(row.texts)) for row, text in pairs]),
        "f1": mean([answer_f1(*one) for one in told]),
        "right": mean([is_right(*one) for one in told]),
        "full_right": mean(right) if whole else None,
    }


class OreoOptions(TrainConfig):
    """The settings of all three trainings."""

    policy: PolicyName = Field(
        "copier",
        description="Policy to train. copier: selects words of the chunks, over MiniLM; seq2seq: an "
        "encoder-decoder, for example T5-small.",
    )
    base: ModelName = Field(
        "reader",
        description="Start of the first training. copier: reader, or a directory with a reader's weights; "
        "seq2seq: a Hugging Face name or a directory.",
    )
    generator: SerializeAsAny[GenerateConfig] = Field(
        GenerateConfig(generator="reader"), description="Generator that reads the texts, with its settings."
    )
    batch: int = Field(16, ge=1, description="Questions per step.")
    batch_tokens: int = Field(3072, ge=256, description="Maximum tokens per forward pass; a step may take several.")
    max_input_tokens: int = Field(
        2048, ge=1, description="Maximum number of tokens of a question's chunks; the last ones are left out."
    )
    max_new_tokens: int = Field(300, ge=1, description="Maximum number of actions per text.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout in encoder and decoder.")
    questions: int | None = Field(
        None, ge=1, description="Questions per pass, different ones in every pass; default: all."
    )
    check_questions: int = Field(300, ge=1, description="Questions asked after every pass, to choose the best weights.")

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "generator": self.generator.identity()}


class OreoTrainer(Trainer[Sequence[OreoExample]]):
    """A subclass has the loss of a part of a step (`part_loss`), or a step of another kind."""

    use: ClassVar[str] = "refine.model"
    curve: list[dict[str, Any]]
    headings: ClassVar[dict[str, str]] = {
        "kept": "answers kept",
        "tokens": "words",
        "share": "of the chunks",
        "short": "under 8 words",
        "right": "accuracy",
        "full_right": "accuracy from the chunks",
    }

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.generator: Generator = make(options.generator, "generator")
        self.curve = []

    def begins_from(self) -> dict[str, str]:
        return policy_files(begun_from(self.options.policy, self.options.base, None))

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "generator": self.generator.identity()}

    @cached_property
    def shape(self) -> Shape:
        options = self.options
        return Shape(self.device, self.dtype, options.max_input_tokens, options.batch_tokens, options.dropout)

    def begin(self, tables: Tables) -> None:
        super().begin(tables)
        if not tables.examples.num_columns:
            raise ConfigError(
                f"trainer {self.options.trainer} needs the examples that `vitalfew train oreo --index` collects"
            )
        self.whole = [OreoExample.of(row) for row in tables.examples.to_pylist()]
        self.split = tables.split or TrainingSplit((), ())
        torch.manual_seed(self.options.seed)
        self.origin = begun_from(self.options.policy, self.options.base, tables.weights)
        self.model: Policy = for_training(self.options.policy, self.origin, self.shape)
        self.learnt = [row for row in self._of("learn") if row.copied or self.options.policy != "copier"]
        if not self.learnt:
            raise ConfigError(
                f"{self.options.trainer}: there is no example to learn from: none of {len(self.whole)} is "
                "of the part to learn from and has words of its chunks"
            )
        self.prepare()

    def prepare(self) -> None:
        """Make the optimiser: here of all weights that learn."""
        self.updates = Updates(self.model.learning(), self.options.learning_rate)

    def _of(self, split: str) -> list[OreoExample]:
        return [row for row in self.whole if row.split == split]

    def finite(self, loss: float, number: int, batch: Sequence[OreoExample]) -> float:
        """The loss. Raises Diverged if it is not finite."""
        if not math.isfinite(loss):
            raise Diverged(
                f"{self.options.trainer}: the loss of step {number + 1} is {loss} (questions "
                f"{', '.join(str(row.question_id) for row in batch[:4])}, …); the last checkpoint is kept. Try a lower "
                "learning_rate, or precision=fp32"
            )
        return loss

    def batches(self, epoch: int) -> Sequence[Sequence[OreoExample]]:
        self.epoch = epoch
        torch.set_num_threads(self.threads)  # a generator that was asked has set its own
        options = self.options
        ordered = random.Random(options.seed).sample(self.learnt, len(self.learnt))
        asked = of_pass(ordered, options.questions, epoch)
        draw = random.Random(f"{options.seed}/{epoch}")
        mixed, size = draw.sample(asked, len(asked)), options.batch
        steps = []
        for start in range(0, len(mixed), 32 * size):  # of similar length in a batch
            some = sorted(mixed[start : start + 32 * size], key=lambda row: (row.size, row.question_id))
            steps += [some[first : first + size] for first in range(0, len(some), size)]
        draw.shuffle(steps)
        return steps

    def read(self, batch: Sequence[OreoExample]) -> list[list[Material]]:
        """Cut a batch into parts of at most `batch_tokens` tokens, without examples that the policy cannot write."""
        sources = self.model.read([row.question for row in batch], [row.texts for row in batch])
        parts: list[list[Material]] = []
        room = 0
        for row, source in zip(batch, sources, strict=True):
            actions = self.model.target(source, row.target, row.copied)[: self.options.max_new_tokens]
            if not actions:
                continue
            if not parts or source.tokens > room:
                parts, room = [*parts, []], self.options.batch_tokens
            parts[-1].append((row, source, actions))
            room -= source.tokens
        return parts

    def part_loss(self, part: Sequence[Material], parts: Sequence[Sequence[Material]]) -> PartLoss:
        """The share of `part` in the loss of a step of `parts`."""
        raise NotImplementedError

    def parts(self, batch: Sequence[OreoExample], number: int) -> Iterator[Part]:
        self.model.train()
        parts = self.read(batch)
        for part in parts:
            loss, summands, records = self.part_loss(part, parts)
            losses = {**summands, "loss": self.finite(loss.item(), number, batch)}
            yield Part(loss, losses, len(part), sum(source.tokens for _, source, _ in part), records)

    def weights(self) -> dict[str, bytes]:
        return self.model.files()

    def quality(self, directory: Path) -> float:
        """F1 of the generator's answers."""
        found = self.measured(directory, "choose")
        self.curve.append(found)
        logger.info("validation articles: %s", found)
        return float(found["f1"])

    def measured(self, directory: Path, split: str, full: bool = False, tick: Tick = no_tick) -> dict[str, Any]:
        options = self.options
        rows = self._of(split)
        asked = random.Random(options.seed).sample(rows, min(options.check_questions, len(rows)))
        policy = read_policy(directory, self.shape)
        found = measure(policy, self.generator, asked, options.max_new_tokens, full, tick)
        torch.set_num_threads(self.threads)
        return found

    def finish(self, directory: Path, tick: Tick) -> dict[str, bytes]:
        names = {"choose": "choosing", "held_out": "held out"}
        rows = [{"articles": name, **self.measured(directory, split, True, tick)} for split, name in names.items()]
        return self.described("oreo", rows)


class OreoSft(OreoTrainer):
    """Oreo's first training: a policy learns to write the evidence texts that were collected."""

    class Options(OreoOptions, extra="forbid"):
        epochs: int = Field(3, ge=1, description="Passes over the questions.")
        layers: int | None = Field(
            None,
            ge=0,
            description="How many of the copier's encoder layers to train, counted from the last; default: all.",
        )
        learning_rate: float = Field(5e-4, gt=0, description="Peak learning rate, after a linear rise; it then falls.")

    version: ClassVar[str] = "4"

    def prepare(self) -> None:
        if self.options.layers is not None:
            self.model.learn_last(self.options.layers)
        super().prepare()

    def part_loss(self, part: Sequence[Material], parts: Sequence[Sequence[Material]]) -> PartLoss:
        actions = sum(len(target) for each in parts for _, _, target in each)
        memory = self.model.encode([source for _, source, _ in part])
        logprobs, _, _ = self.model.log_probabilities(memory, [target for _, _, target in part])
        return -logprobs.sum() / actions, {}, {}
