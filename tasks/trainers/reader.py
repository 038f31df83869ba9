"""`reader`: questions with answers marked in their passages → the weights of the generator `reader`.

The training makes one pass over clozes, if the settings ask for it, then the passes over the questions. The loss has
two parts. For windows with the answer: the marginal likelihood of the gold starts and ends, because a question has
several gold answers (Clark & Gardner, 2018, arXiv 1710.10723, section 3.2). For every window: the cross entropy of
whether it has the answer. DPR (section 6.1) instead compares a question's contexts in one softmax; independent contexts
can be put into batches of similar length.
"""

import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from vitalfew.configs.section import ModelName
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.generators.reader import Reader
from vitalfew.tasks.metrics.answers import F1, ExactMatch
from vitalfew.tasks.metrics.base import Answer, Case
from vitalfew.tasks.models.encoder.recipe import read_tokenizer
from vitalfew.tasks.models.files import digests
from vitalfew.tasks.models.small.reader import ReaderModel
from vitalfew.tasks.models.small.tuned import base_directory
from vitalfew.tasks.models.small.windows import Batch
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.trainers.articles import Material
from vitalfew.tasks.trainers.bert import DROPOUT, BertTrainer, WindowOptions
from vitalfew.tasks.trainers.examples import Sampler, SpanWindow, clozes, hard_passages, labelled, span_loss

logger = logging.getLogger("vitalfew")

CHOOSING_CONTEXTS, CARD_CONTEXTS = 3, (1, 10)
CARD_QUESTIONS = 500
"""The number of questions asked with several contexts; all questions are asked with their gold passage alone."""


def measure(reader: Generator, material: Material, contexts: int, tick: Tick = no_tick) -> dict[str, Any]:
    """Ask the material's questions with `contexts` passages: the gold passage, then the passages without the answer
    that BM25 ranks highest among all of them. Returns `exact_match` and `f1` in percent, and the mean of
    `prompt_tokens`, with the numbers of `questions` and `contexts`."""
    hard = hard_passages(material) if contexts > 1 else [[] for _ in material.questions]
    prompts = [
        Prompt("", asked.question, tuple(material.passages[n].text for n in (asked.passage, *others[: contexts - 1])))
        for asked, others in zip(material.questions, hard, strict=True)
    ]
    completions = reader.generate(prompts, tick=tick)
    cases = [
        Case(asked.question, asked.answers, (), (), answer=Answer(one.text, 0, 0, 0.0, error=one.error))
        for asked, one in zip(material.questions, completions, strict=True)
    ]
    figures = {**ExactMatch(ExactMatch.Options()).score(cases), **F1(F1.Options()).score(cases)}
    means = {name: round(100 * sum(value or 0.0 for value in own) / len(cases), 2) for name, own in figures.items()}
    tokens = sum(completion.prompt_tokens for completion in completions) / len(cases)
    return {"questions": len(cases), "contexts": contexts, **means, "prompt_tokens": round(tokens, 1)}


class ReaderTrainer(BertTrainer):
    """The extractive reader: where is the answer in the contexts, and is there one?"""

    class Options(WindowOptions, extra="forbid"):
        learning_rate: float = Field(
            8e-4, gt=0, description="Peak learning rate, after a linear rise; it then falls to 0."
        )
        base: ModelName = Field("minilm", description="Encoder to start from: minilm, or the directory of a BERT.")
        clozes: int = Field(0, ge=0, description="Cloze questions per passage to learn from before the first pass.")
        rank: int = Field(64, ge=1, description="Rank of the low-rank updates.")

    use: ClassVar[str] = "generate.model"
    headings: ClassVar[dict[str, str]] = {
        "exact_match": "exact match %",
        "f1": "F1 %",
        "prompt_tokens": "tokens a question",
    }

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.base = options.base

    @property
    def passes(self) -> int:
        return self.options.epochs + bool(self.options.clozes)

    def begins_from(self) -> dict[str, Any]:
        directory = base_directory(self.base)
        return digests([directory], directory)

    def network(self) -> ReaderModel:
        base = base_directory(self.base)
        self.tokenizer = read_tokenizer(base)
        model = ReaderModel(base, self.dtype, DROPOUT)
        model.prepare_for_training(self.options.rank)
        return model

    @cached_property
    def samplers(self) -> list[Sampler]:
        """The sampler of the pass over clozes, if there is one, and the sampler of the other passes."""
        options, materials = self.options, [self.learnt]
        if options.clozes:
            questions = clozes(self.learnt, options.clozes, options.seed)
            materials = [Material(self.learnt.passages, questions), self.learnt]
        return [Sampler(material, options.negatives, options.seed) for material in materials]

    def rows(self, epoch: int) -> list[SpanWindow]:
        sampler = self.samplers[min(epoch, len(self.samplers) - 1)]
        return labelled(self.tokenizer, (example for _, example in sampler.examples(epoch)))

    def losses(self, rows: Sequence[SpanWindow], batch: Batch) -> dict[str, Tensor]:
        start, end, answerable = self.model(batch)
        has_answer = torch.tensor([float(bool(row.starts)) for row in rows], device=self.device)
        losses = {"answerable": self.answerability(answerable, has_answer)}
        return losses | {"span": span_loss(start, end, rows)}

    def answerability(self, logits: Tensor, has_answer: Tensor) -> Tensor:
        """The loss of the decision which windows have the answer, summed over them. Both: float32 (windows,)."""
        return binary_cross_entropy_with_logits(logits, has_answer, reduction="sum")

    def quality(self, directory: Path) -> float:
        """F1 in percent, with two distractors."""
        choosing = self.part(self.split.choosing)
        asked = choosing.sample(self.options.check_questions, self.options.seed)
        quality = measure(self.reader(directory), Material(choosing.passages, asked), CHOOSING_CONTEXTS)
        logger.info("validation articles: EM %(exact_match).1f, F1 %(f1).1f", quality)
        return float(quality["f1"])

    def reader(self, directory: Path) -> Reader:
        return self.for_inference(Reader(Reader.Options(model=str(directory), **self.computing)))

    def finish(self, directory: Path, tick: Tick) -> dict[str, bytes]:
        held_out = self.part(self.split.held_out)
        some = Material(self.whole.passages, held_out.sample(CARD_QUESTIONS, self.options.seed))
        reader, (alone, several) = self.reader(directory), CARD_CONTEXTS
        figures = [measure(reader, held_out, alone, tick), measure(reader, some, several, tick)]
        return self.described("reader", figures)
