"""The contract of a trainer: it takes batches of material, makes steps, and gives figures, weights and their card.

A trainer knows no store. The stage `train` (tasks/train.py) gives it the rows to learn from, asks it for one step after
another, keeps its checkpoints, and writes the finished weights. Any material fits: a batch is whatever `step` takes.
The result of a step depends only on the state, the batch and the step's number, so that a training that was killed goes
on from its checkpoint to the same bytes.

Beside the weights are their files: the card for people, by a template of `cards/`, which has its wording; figures,
recipe and held-out titles for programs.

`Updates` are the steps down a gradient, whichever network: AdamW (Loshchilov & Hutter, 2019, arXiv 1711.05101) or
Adafactor (Shazeer & Stern, 2018, arXiv 1804.04235), with clipped gradients. The learning rate rises linearly over the
first `WARM_UP` of the training and then falls linearly to 0.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import pyarrow as pa
import torch
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from torch import Tensor, nn

from vitalfew.configs.training import TrainConfig
from vitalfew.storage.artifacts import FIGURES
from vitalfew.tasks.datasets.base import Passage, Question, Record, Span
from vitalfew.tasks.models.device import OnDevice, require_device
from vitalfew.tasks.models.ticks import Tick
from vitalfew.tasks.trainers.splits import Apart, TrainingSplit, question_group

BatchT = TypeVar("BatchT")
ItemT = TypeVar("ItemT")

WARM_UP = 0.05
"""The share of the training during which the learning rate rises."""
WEIGHT_DECAY = 0.01
CLIP = 1.0
"""The maximal norm of the gradient, unless another is given."""

OptimizerName = Literal["adamw", "adafactor"]

CARD, HELD_OUT, RECIPE = "README.md", "held_out.txt", "recipe.yaml"


class Updates:
    """The optimiser of `trained` parameters, by name."""

    def __init__(
        self,
        trained: Mapping[str, nn.Parameter],
        learning_rate: float,
        optimizer: OptimizerName = "adamw",
        clip: float = CLIP,
    ) -> None:
        self.trained, self.peak, self.clip = trained, learning_rate, clip
        self.optimizer: torch.optim.Optimizer
        if optimizer == "adamw":
            self.optimizer = torch.optim.AdamW(trained.values(), learning_rate, weight_decay=WEIGHT_DECAY, fused=True)
        else:
            self.optimizer = torch.optim.Adafactor(trained.values(), learning_rate)

    def descend(self, done: float) -> float:
        """Take one step down the gradients that were added up since the last; `done`: share of the training.

        Returns the learning rate.
        """
        rate = self.peak * min(done / WARM_UP, (1 - done) / (1 - WARM_UP))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        torch.nn.utils.clip_grad_norm_(self.trained.values(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return rate

    def tensors(self) -> dict[str, Tensor]:
        """The parameters, and their moments under `parameter|moment`."""
        tensors = {name: parameter.detach() for name, parameter in self.trained.items()}
        for name, parameter in self.trained.items():
            tensors |= {f"{name}|{key}": value for key, value in self.optimizer.state[parameter].items()}
        return tensors

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the result of `tensors`, and discard the current moments."""
        self.optimizer.state.clear()
        for name, tensor in tensors.items():
            parameter, _, key = name.partition("|")
            if key:
                owner = self.trained[parameter]
                self.optimizer.state[owner][key] = tensor.to(owner.device)
            else:
                self.trained[name].copy_(tensor)


class Sources(NamedTuple):
    """FORMAT:FILE of the questions' data sets, and of the data sets with more passages."""

    questions: Sequence[str] = ()
    passages: Sequence[str] = ()


@dataclass(frozen=True)
class Tables:
    """The rows that a training learns from: `questions` (schemas.QUESTIONS) and `passages` (schemas.PASSAGES).

    The passages of the questions' data sets come first. `apart`: which of them are of data sets that are not learnt
    from; `labels` (schemas.LABELS): which passages are relevant, if a run says that. For Oreo: `examples`
    (schemas.OREO_EXAMPLES), the directory of the `weights` of an earlier training, and the `split` of the examples.
    """

    questions: pa.Table = field(default_factory=lambda: pa.table({}))
    passages: pa.Table = field(default_factory=lambda: pa.table({}))
    examples: pa.Table = field(default_factory=lambda: pa.table({}))
    weights: Path | None = None
    split: TrainingSplit | None = None
    apart: Apart = field(default_factory=Apart)
    labels: pa.Table | None = None

    def records(self) -> Iterator[Record]:
        """The dataset records that the rows of `passages` and `questions` come from."""
        for row in self.passages.to_pylist():
            yield Passage(row["title"], row["text"], row["source_id"])
        for row in self.questions.to_pylist():
            facts = tuple(Span(**fact) for fact in row["supporting_facts"])
            yield Question(row["text"], tuple(row["answers"]), tuple(row["gold_passages"]), facts, row["source_id"])

    def sources(self) -> Sources:
        """The data sets to learn from."""
        questions = self.questions.select(["source", "text"]).to_pylist()
        passages = self.passages.select(["source", "passage_id"]).to_pylist()
        asked = {row["source"] for row in questions if question_group(row["text"]) not in self.apart.questions}
        others = {row["source"] for row in passages if row["passage_id"] not in self.apart.passages}
        return Sources(sorted(asked), sorted(others - asked))


@dataclass(frozen=True, slots=True)
class Part:
    """What is learnt from at once in a step. `loss`: those of all parts add up to what the step minimises; `losses`,
    `rows`, `tokens`, `records`: as of `Step`, to be added up."""

    loss: Tensor
    losses: Mapping[str, float]
    rows: int
    tokens: int
    records: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """The size and the result of a step. `tokens`: without padding; `losses`: losses and rates by name; `records`: rows
    of further tables, by table."""

    rows: int
    tokens: int
    lr: float
    losses: Mapping[str, float]
    records: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """Everything that the next step depends on: tensors, and `notes`, values that JSON can hold."""

    tensors: Mapping[str, Tensor]
    notes: Mapping[str, Any] = field(default_factory=dict)


class Trainer(OnDevice, ABC, Generic[BatchT]):
    """Trains one network: a class with `Options`, a TrainConfig with the trainer's own settings.

    Construction is cheap, so that names and settings are checked before anything runs; `begin` prepares the training.
    """

    Options: ClassVar[type[TrainConfig]]
    version: ClassVar[str] = "1"
    """Part of the fingerprint: raise it when the same material would give different weights."""
    use: ClassVar[str]
    """The setting that takes the directory of finished weights: generate.model."""
    headings: ClassVar[Mapping[str, str]] = {}
    """The heading of a figure, by its name, where the name is not clear enough."""
    takes_labels: ClassVar[bool] = False
    """True if the labels of a run (`Tables.labels`) can say what is relevant."""
    updates: Updates
    """The optimiser of the network's weights, which `begin` makes."""
    curve: list[dict[str, Any]] | None = None
    """The figures of every pass on the articles that choose, where a trainer keeps them."""
    split: TrainingSplit
    sources: Sources = Sources()
    whole: Any
    """The material; `learnt` is the part to learn from. `begin` sets both, and `split`, for the card."""
    learnt: Any

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`. Raises the errors that a user has to correct in them."""
        super().__init__(options)
        self.options = options
        self.threads = options.threads or os.cpu_count() or 1
        self.computing = {"device": options.device, "precision": options.precision}

    @abstractmethod
    def begins_from(self) -> dict[str, Any]:
        """The checksums of the weights that the training starts from."""

    def identity(self) -> dict[str, Any]:
        """Everything that determines the weights besides settings and material."""
        return {**super().identity(), "begins_from": self.begins_from()}

    @property
    def passes(self) -> int:
        """The maximal number of passes over the material."""
        return self.options.epochs

    def begin(self, tables: Tables) -> None:
        """Prepare to learn from these rows. Raises InputError and ConfigError if they are unfit for training."""
        require_device(self.device, self.dtype, "train")

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[BatchT]:
        """The material of a pass (from 0), one batch for every step; the same for the same pass."""

    def parts(self, batch: BatchT, number: int) -> Iterator[Part]:
        """The parts of a step, which a trainer has unless it has a `step` of another kind."""
        raise NotImplementedError

    def step(self, batch: BatchT, number: int, done: float) -> Step:
        """Learn from a batch. `number`: of the step in the training, from 0; `done`: share of the training so far."""
        torch.manual_seed(self.options.seed * 1_000_003 + number)  # a resumed training draws the same numbers
        rows = tokens = 0
        losses: dict[str, float] = {}
        records: dict[str, list[Mapping[str, Any]]] = {}
        for part in self.parts(batch, number):
            part.loss.backward()
            rows, tokens = rows + part.rows, tokens + part.tokens
            losses |= {name: losses.get(name, 0.0) + value for name, value in part.losses.items()}
            for table, more in part.records.items():
                records.setdefault(table, []).extend(more)
        losses.setdefault("loss", 0.0)
        return Step(rows, tokens, self.updates.descend(done), losses, records)

    def state(self) -> State:
        """The state for a checkpoint."""
        return State(self.updates.tensors(), {} if self.curve is None else {"curve": self.curve})

    def restore(self, state: State) -> None:
        """Go back to a checkpoint: its tensors (on any device) and notes."""
        self.updates.restore(state.tensors)
        if self.curve is not None:
            self.curve = list(state.notes["curve"])

    @abstractmethod
    def weights(self) -> dict[str, bytes]:
        """The files of the current weights, by name, as inference reads them."""

    @abstractmethod
    def quality(self, directory: Path) -> float:
        """The quality of the weights in a directory on the articles that choose; higher is better."""

    @abstractmethod
    def finish(self, directory: Path, tick: Tick) -> dict[str, bytes]:
        """Measure the best weights, which are in a directory, on the held-out part; return the files to store beside
        them, by name."""

    def described(
        self,
        template: str,
        figures: Sequence[Mapping[str, Any]],
        more: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
        **shown: Any,
    ) -> dict[str, bytes]:
        """The files beside the weights, by name.

        `template`: the card's file in `cards/`; `figures`, `more`: are stored, and shown in the card; `files`: further
        ones; `shown`: other values that the card shows.
        """
        curve = {} if self.curve is None else {"curve": self.curve}
        stored = {"figures": figures, **(more or {}), **curve}
        settings = {**self.options.recipe(), "precision": self.precision}
        questions, passages = self.sources
        loader = PackageLoader("vitalfew.tasks.trainers", "cards")
        environment = Environment(
            loader=loader, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
        )
        card = environment.get_template(f"{template}.md.jinja").render(
            options=self.options,
            split=self.split,
            files=", ".join(source.partition(":")[2] for source in (*questions, *passages)),
            sources=" ".join([*questions, *(f"--passages {source}" for source in passages)]),
            recipe=RECIPE,
            held_out=HELD_OUT,
            learnt=self.learnt,
            whole=self.whole,
            **stored,
            **shown,
        )
        texts = {
            CARD: card,
            FIGURES: json.dumps({**stored, "settings": settings}, indent=1, ensure_ascii=False) + "\n",
            HELD_OUT: "".join(f"{title}\n" for title in self.split.held_out),
            RECIPE: yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
        }
        return {name: text.encode() for name, text in texts.items()} | dict(files or {})


def of_pass(material: Sequence[ItemT], size: int | None, epoch: int) -> list[ItemT]:
    """The members of a pass: `size` of them, different ones in every pass; None: all."""
    size = min(size or len(material), len(material))
    return [material[place % len(material)] for place in range(epoch * size, (epoch + 1) * size)]
