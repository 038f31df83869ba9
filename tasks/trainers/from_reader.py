"""A training that begins with a reader's weights: the critic's, and the sentence filter's."""

from typing import Any, ClassVar

from torch import Tensor

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.generators.reader import Reader
from vitalfew.tasks.models.small.tuned import read_tokenizer
from vitalfew.tasks.trainers.bert import DROPOUT, BertTrainer, ModelT, RowT
from vitalfew.tasks.trainers.card import HELD_OUT


class FromReader(BertTrainer[ModelT, RowT]):
    """The articles that it holds out must have been held out from the reader too. Its options name the `reader`."""

    called: ClassVar[str]
    """What it trains, for messages."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.reader = Reader(Reader.Options(model=options.reader, device=options.device, precision=options.precision))
        self.base = self.reader.weights.name

    def begins_from(self) -> dict[str, Any]:
        return self.reader.weights.digests()

    def _unseen(self) -> list[str]:
        """Titles of the articles that the reader was not trained on, by its own list."""
        file = self.reader.directory / HELD_OUT
        return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []

    def check(self) -> None:
        """Raises ConfigError if the reader may have learnt from an article that is held out here."""
        if seen := sorted(set(self.split.held_out) - set(self._unseen())):
            raise ConfigError(
                f"the reader in {self.reader.directory} may have learnt from {seen[0]!r}, which {self.called} "
                f"holds out: its {HELD_OUT} does not list this title. Train a reader on the same data, with "
                "the same held_out and seed, and use --set reader=DIR"
            )

    def prepared(self, network: type[ModelT]) -> tuple[ModelT, dict[str, Tensor]]:
        """The network over the reader's encoder, prepared for training, and the reader's updates."""
        weights = self.reader.weights
        self.tokenizer = read_tokenizer(weights.base)
        begin = weights.tensors()
        model = network(weights.base, self.dtype, DROPOUT)
        model.prepare_for_training(next(len(tensor[0]) for name, tensor in begin.items() if name.endswith(".b")))
        return model, begin
