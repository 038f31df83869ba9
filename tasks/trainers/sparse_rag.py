"""`sparse_rag`: questions with retrieved passages → LoRA weights that make a causal model rate and answer.

Sparse RAG (arXiv 2405.16178, section 3) tunes a model on a mixture of two tasks: to say whether a context is of use,
and to answer from contexts that do not see one another. Here a question is one pass that has both (retrieved.py); the
loss is the mean cross entropy of its ratings plus that of its answer. Without ratings the same trainer tunes the
baselines, as in the paper: PCW's adapter (attention block) and RAG's (full). A training can start from an adapter, to
get it used to another number of contexts: what that held out is held out here too.

Ours, where the paper says nothing: the wording of the controls, the schedule, and, without retrieved contexts, that
these are relevant ones and distractors in random order. The pass with the least loss on the questions that choose is
the best one.
"""

import logging
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import Field
from sklearn.metrics import f1_score, roc_auc_score
from torch import Tensor
from torch.nn.functional import cross_entropy

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import ModelName
from vitalfew.tasks.models.causal.adapters import Adapter, CausalLora
from vitalfew.tasks.models.causal.controls import Controls, Segmenter
from vitalfew.tasks.models.causal.engines.base import LocalOptions
from vitalfew.tasks.models.causal.language_model import LocalModel
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.raters.base import Rater
from vitalfew.tasks.registry import make
from vitalfew.tasks.retrievers.run_file import RunFile
from vitalfew.tasks.trainers.base import HELD_OUT, OptimizerName, Part, Tables, Trainer, Updates, of_pass
from vitalfew.tasks.trainers.retrieved import (
    Attention,
    PackedExample,
    Retrieved,
    RetrievedExample,
    RetrievedOptions,
    RetrievedQuestion,
    pack,
)
from vitalfew.tasks.trainers.splits import SplitRule

logger = logging.getLogger("vitalfew")


def losses_of(packed: PackedExample, logits: Tensor) -> dict[str, Tensor]:
    """Return the mean cross entropy of the ratings, if there are any, and of the answer's tokens.

    `logits`: at the places of the ratings, then of the answer, float32 (places, vocabulary)."""
    wanted = torch.tensor([token for _, token in (*packed.ratings, *packed.answer)], device=logits.device)
    rated = len(packed.ratings)
    parts = {"rating": slice(0, rated), "answer": slice(rated, None)} if rated else {"answer": slice(None)}
    return {name: cross_entropy(logits[part], wanted[part]) for name, part in parts.items()}


class Ratings(NamedTuple):
    """The ratings and losses of a question: the probability of "yes" for its contexts, and their truth; losses in nats,
    the answer's per token; `exact`: whether the most probable tokens are the answer, so that greedy decoding writes it.
    """

    scores: list[float]
    relevant: list[bool]
    rating_loss: float | None
    answer_loss: float
    exact: bool


def ratings(packed: PackedExample, logits: Tensor, yes: int) -> Ratings:
    """`logits`: at the places of the ratings, then of the answer, (places, vocabulary)."""
    rated, losses = len(packed.ratings), losses_of(packed, logits)
    scores = torch.softmax(logits[:rated], dim=1)[:, yes].tolist()
    exact = logits[rated:].argmax(1).tolist() == [token for _, token in packed.answer]
    rating_loss = losses["rating"].item() if rated else None
    return Ratings(scores, [token == yes for _, token in packed.ratings], rating_loss, losses["answer"].item(), exact)


def measured(found: Sequence[Ratings], contexts: int) -> dict[str, Any]:
    """Return means over questions. `auc`: area under the ROC curve of all contexts' ratings; `f1`: of those above 0.5.
    Both, and `rating_loss`, are None without ratings, and AUC where all contexts have one label. `exact` in percent."""
    scores = [score for each in found for score in each.scores]
    truth = [relevant for each in found for relevant in each.relevant]
    losses = [each.rating_loss for each in found if each.rating_loss is not None]
    figures = {
        "auc": roc_auc_score(truth, scores) if len(set(truth)) == 2 else None,
        "f1": f1_score(truth, [score > 0.5 for score in scores], zero_division=0.0) if truth else None,
        "rating_loss": np.mean(losses) if losses else None,
        "answer_loss": np.mean([each.answer_loss for each in found]),
    }
    rounded = {name: value if value is None else round(float(value), 4) for name, value in figures.items()}
    exact = round(100 * float(np.mean([each.exact for each in found])), 2)
    return {"questions": len(found), "contexts": contexts, **rounded, "exact": exact}


class SparseRagTrainer(Trainer[Sequence[PackedExample]]):
    """LoRA weights for a causal model that rates contexts and answers from those it keeps; or for RAG and PCW."""

    class Options(RetrievedOptions, Controls, extra="forbid"):
        base: ModelName = Field("smollm2", description="Causal model, named as in generate.model.")
        start: ModelName | None = Field(
            None,
            description="Adapter that the training starts from, a preset or a directory, of the same rank, alpha and "
            "targets. What it held out (held_out.txt) is held out again. Default: no updates.",
        )
        attention: Attention = Field(
            "block", description="Attention of contexts. block: contexts do not see one another; full: as in RAG."
        )
        ratings: bool = Field(True, description="Train the model to rate contexts, too.")
        contexts: int = Field(3, ge=1, description="Maximum number of contexts per example.")
        fewest: int = Field(2, ge=1, description="Minimum number of contexts per example.")
        questions: int | None = Field(
            None, ge=1, description="Questions per pass, different ones in every pass; default: all."
        )
        batch: int = Field(4, ge=1, description="Questions per step.")
        rank: int = Field(16, ge=1, description="Rank of the low-rank updates.")
        alpha: int = Field(32, ge=1, description="Scale of the low-rank updates: alpha / rank.")
        dropout: float = Field(0.0, ge=0, lt=1, description="Dropout before the low-rank updates.")
        targets: tuple[str, ...] = Field(
            ("all-linear",), min_length=1, description="Layers with updates, by the ends of their names, or all-linear."
        )
        optimizer: OptimizerName = Field("adamw", description="Optimizer: adamw or adafactor.")
        learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate, after a linear rise; it then falls.")

    use: ClassVar[str] = "generate.adapter"
    version: ClassVar[str] = "2"  # since 2, by the library's attention
    takes_labels: ClassVar[bool] = True
    curve: list[dict[str, Any]]
    headings: ClassVar[dict[str, str]] = {
        "auc": "AUC of ratings",
        "f1": "F1 of ratings",
        "answer_loss": "loss of answers",
        "exact": "exact answers %",
    }

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.sizes = min(options.fewest, options.contexts), options.contexts
        self.language_model = LocalModel(LocalOptions(model=options.base, max_tokens=1), "train")
        if self.language_model.is_seq2seq:
            raise ConfigError(f"base={options.base} is an encoder-decoder; name a causal model (smollm2)")
        self.labeller: Rater = make(options.label, "label")
        self.start = Adapter(options.start, "", "start") if options.start else None
        self.unseen = self.start.lines(HELD_OUT) if self.start else []
        self.runs = [RunFile(RunFile.Options(file=file)) for file in options.run_file]
        self.curve = []

    def identity(self) -> dict[str, Any]:
        given = {"run_file": [run.identity() for run in self.runs]} if self.runs else {}
        return {**super().identity(), **given, "labeller": self.labeller.identity()}

    def begins_from(self) -> dict[str, Any]:
        start = {"start": {**self.start.files(), HELD_OUT: self.unseen}} if self.start else {}
        return {**self.language_model.files(), **start}

    def begin(self, tables: Tables) -> None:
        super().begin(tables)
        options, local = self.options, self.language_model
        self.segmenter = Segmenter(local.tokenizer, options, local.given_template)
        rule = SplitRule(options, options.seed, tables.apart, unseen=self.unseen)
        self.whole = Retrieved(tables, options.retrieved, rule, self.labeller, self.runs)
        self.sources = tables.sources()
        self.split = rule.split(question.group for question in self.whole.questions)
        self.apart = self.whole.apart(self.split)
        learnt = [question for question in self.whole.questions if question.group not in self.split.unseen]
        self.learnt = random.Random(options.seed).sample(learnt, len(learnt))
        torch.manual_seed(options.seed)
        self.model = CausalLora(
            local.directory, self.device, self.dtype, options.rank, options.alpha, options.dropout, options.targets
        )
        if self.start:
            self.model.begin_from(self.start)
        self.updates = Updates(self.model.trained(), options.learning_rate, options.optimizer)

    def batches(self, epoch: int) -> Sequence[Sequence[PackedExample]]:
        options = self.options
        asked = of_pass(self.learnt, options.questions, epoch)
        draw = random.Random(f"{options.seed}/{epoch}")
        examples = self._packed(self.whole.examples(asked, self.apart, self.sizes, draw))
        draw.shuffle(examples)
        return [examples[start : start + options.batch] for start in range(0, len(examples), options.batch)]

    def _packed(self, examples: Sequence[RetrievedExample]) -> list[PackedExample]:
        """Pack the examples that have room in the model."""
        torch.set_num_threads(self.threads)  # the encoder that retrieved has set its own
        options, room = self.options, self.language_model.positions or 10**9
        packed = [pack(self.segmenter, example, options.ratings, options.attention) for example in examples]
        fitting = [one for one in packed if max(one.positions) < room]
        if left := len(packed) - len(fitting):
            logger.warning("%d examples are left out: they are longer than the model's %d positions", left, room)
        return fitting

    def parts(self, batch: Sequence[PackedExample], number: int) -> Iterator[Part]:
        self.model.model.train()
        for packed in batch:
            losses = losses_of(packed, self._logits(packed))
            values = {name: loss.item() / len(batch) for name, loss in losses.items()}
            total = torch.stack([*losses.values()]).sum() / len(batch)
            yield Part(total, {**values, "loss": sum(values.values())}, 1, len(packed.ids))

    def _logits(self, packed: PackedExample) -> torch.Tensor:
        """Return the logits of the ratings and of the answer's tokens: float32 (places, vocabulary)."""
        return self.model.logits(packed.ids, packed.positions, packed.layout, packed.places)

    def weights(self) -> dict[str, bytes]:
        return self.model.files(self.options.base)

    def quality(self, directory: Path) -> float:
        """Return minus the loss."""
        rated = self._measured(directory, self.split.choosing)
        self.curve.append(rated)
        logger.info("validation articles: %s", rated)
        return -float((rated["rating_loss"] or 0.0) + rated["answer_loss"])

    def _measured(self, directory: Path, groups: Sequence[str], tick: Tick = no_tick) -> dict[str, Any]:
        """Measure questions of these groups, with distractors out of all passages."""
        these = set(groups)
        of_these = [question for question in self.whole.questions if question.group in these]
        draw = random.Random(f"{self.options.seed}/measured")
        asked: list[RetrievedQuestion] = draw.sample(of_these, min(len(of_these), self.options.check_questions))
        found = []
        sizes = self.options.contexts, self.options.contexts
        examples = self._packed(self.whole.examples(asked, (), sizes, draw))
        with self.model.weights_of(directory):
            for packed in examples:
                found.append(ratings(packed, self._logits(packed), self.segmenter.yes))
                tick(1, len(packed.ids))
        return measured(found, self.options.contexts)

    def finish(self, directory: Path, tick: Tick) -> dict[str, bytes]:
        parts = {"choosing": self.split.choosing, "held out": self.split.held_out}
        rows = [{"articles": name, **self._measured(directory, groups, tick)} for name, groups in parts.items()]
        return self.described("sparse_rag", rows)
