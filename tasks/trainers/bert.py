"""Training of reader, critic and sentence filter: a BERT with low-rank updates reads windows of question and context.

Some questions are held out altogether, for the figures; some decide which pass gave the best weights; the network
learns from the others. They are split by article, unless the settings say otherwise (splits.py). Some of the
question's tokens are masked, so that the network relies on no single token. The critic and the filter begin with a
reader's weights (`FromReader`).
"""

import random
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from pydantic import Field
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import ModelName
from vitalfew.configs.training import ArticleOptions
from vitalfew.tasks.generators.reader import Reader
from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.encoder.recipe import read_tokenizer
from vitalfew.tasks.models.small.tuned_encoder import TunedEncoder, weight_files
from vitalfew.tasks.models.small.windows import QUESTION, Batch, padded, special
from vitalfew.tasks.trainers.articles import Material, read_material
from vitalfew.tasks.trainers.base import HELD_OUT, Part, Tables, Trainer, Updates
from vitalfew.tasks.trainers.splits import SplitRule

DROPOUT = 0.1
MASKED = 0.1
"""Share of the question's tokens that are masked."""


class WindowOptions(ArticleOptions):
    """The settings that reader, critic and filter have."""

    negatives: float = Field(0.5, ge=0, description="Mean number of contexts without the answer per question and pass.")
    batch_tokens: int = Field(1536, ge=256, description="Tokens per step, padding included.")


class FromReaderOptions(WindowOptions):
    """The settings of the networks that start from a reader."""

    epochs: int = Field(1, ge=1, description="Passes over the questions.")
    learning_rate: float = Field(5e-4, gt=0, description="Peak learning rate, after a linear rise; it then falls to 0.")
    reader: ModelName | None = Field(
        None,
        description="Reader whose weights the training starts from, and whose answers the critic judges: a directory "
        "that `vitalfew train reader --out` wrote; default: the bundled reader.",
    )


class BertTrainer(Trainer[Sequence[Any]]):
    """`base`: the name of the encoder whose weights the training updates; the constructor of a subclass sets it. A row
    has a `window` and its labels."""

    base: str
    tokenizer: Tokenizer
    model: Any

    @abstractmethod
    def network(self) -> TunedEncoder:
        """The network, prepared for training."""

    @abstractmethod
    def rows(self, epoch: int) -> Sequence[Any]:
        """The rows of one pass (from 0)."""

    @abstractmethod
    def losses(self, rows: Sequence[Any], batch: Batch) -> Mapping[str, Tensor]:
        """The losses by name, summed over the rows, whose windows are `batch`. Their total is minimised."""

    def begin(self, tables: Tables) -> None:
        super().begin(tables)
        options = self.options
        rule = SplitRule(options, options.seed, tables.apart)
        self.whole: Material = read_material(tables.records()).grouped(rule)
        self.sources = tables.sources()
        self.split = rule.split(self.whole.groups)
        self.learnt: Material = self.whole.learnt(rule, self.split)
        self.check()
        torch.manual_seed(options.seed)
        self.model = self.network().to(self.device)
        self.padding, self.mask = special(self.tokenizer, "[PAD]"), special(self.tokenizer, "[MASK]")
        self.updates = Updates(self.model.learning(), options.learning_rate)

    def check(self) -> None:
        """Raise ConfigError if this split is unfit."""

    def part(self, groups: Iterable[str]) -> Material:
        """The questions of these groups with all passages; by article, with those of these articles."""
        return self.whole.of(groups, self.split.by)

    def batches(self, epoch: int) -> Sequence[Sequence[Any]]:
        """Rows of similar length are in a batch; the order is random otherwise."""
        rows = self.rows(epoch)
        torch.set_num_threads(self.threads)
        draw = random.Random(f"{self.options.seed}/{epoch}/batches")
        mixed = draw.sample(rows, len(rows))
        alike = batches([len(row.window.ids) for row in mixed], self.options.batch_tokens)
        steps = [[mixed[number] for number in numbers] for numbers in alike]
        draw.shuffle(steps)
        self.rows_per_step = len(rows) / max(1, len(steps))
        return steps

    def parts(self, batch: Sequence[Any], number: int) -> Iterator[Part]:
        """Every row of a pass has the same weight, whatever the size of its batch."""
        self.model.train()
        losses = self.losses(batch, self._masked(batch))
        total = torch.stack([*losses.values()]).sum()
        values = {name: loss.item() / len(batch) for name, loss in {**losses, "loss": total}.items()}
        yield Part(total / self.rows_per_step, values, len(batch), sum(len(row.window.ids) for row in batch))

    def _masked(self, rows: Sequence[Any]) -> Batch:
        """The rows' windows with some of the questions' tokens masked."""
        batch = padded([row.window for row in rows], self.padding, self.device)
        question = (batch.types == QUESTION) & (batch.mask == 1)
        hidden = question & (torch.rand(batch.ids.shape, device=self.device) < MASKED)
        hidden[:, 0] = False  # [CLS]
        batch.ids.masked_fill_(hidden, self.mask)
        return batch

    def cross_entropy(self, logits: Tensor, truth: Sequence[bool]) -> Tensor:
        """The binary cross entropy of the truth, summed. `logits`: float32 (n,)."""
        target = torch.tensor(truth, device=self.device, dtype=torch.float32)
        return binary_cross_entropy_with_logits(logits, target, reduction="sum")

    def weights(self) -> dict[str, bytes]:
        return weight_files(self.model, self.base)

    def for_inference(self, method: Any) -> Any:
        """Load the model of a reader or critic, and set this process's threads again, which loading sets to one."""
        method.model.requires_grad_(False)
        torch.set_num_threads(self.threads)
        return method


class FromReader(BertTrainer):
    """A training that starts from a reader, which its options name.

    The articles that it holds out must have been held out from the reader too.
    """

    called: ClassVar[str]
    """The network's name in messages."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.reader = Reader(Reader.Options(model=options.reader, **self.computing))
        self.base = self.reader.weights.name

    def begins_from(self) -> dict[str, Any]:
        return self.reader.weights.digests()

    def check(self) -> None:
        """Raise ConfigError if the reader may have learnt from an article that is held out here."""
        file = self.reader.directory / HELD_OUT
        unseen = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        if seen := sorted(set(self.split.held_out) - set(unseen)):
            raise ConfigError(
                f"the reader in {self.reader.directory} may have learnt from {seen[0]!r}, which {self.called} "
                f"holds out: its {HELD_OUT} does not list that. Train a reader on the same data, with "
                "the same split, held_out and seed, and use --set reader=DIR"
            )

    def prepared(self, network: type[TunedEncoder]) -> Any:
        """The network over the reader's encoder, prepared for training; it begins from the reader's updates."""
        weights = self.reader.weights
        self.tokenizer = read_tokenizer(weights.base)
        begin = weights.tensors()
        model: Any = network(weights.base, self.dtype, DROPOUT)
        model.prepare_for_training(next(len(tensor[0]) for name, tensor in begin.items() if name.endswith(".b")))
        model.begin_from(begin)
        return model
