"""split, by a splitter that rewrites: `passages` → `sentences` that are no parts of them (propositions).

Such a row has no place in its passage (start = end = 0): nothing downstream may take it for a part of it. Its id is of
its passage and all units of that, since its context, the other ones, depends on them. A passage that no unit could be
made of stays whole, as its only unit, and is counted in the manifest (`whole`).
"""

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq

from configs.schema import SplitConfig
from storage.artifacts import Artifact, Manifest
from storage.ids import rewritten_id
from tasks.registry import resolve
from tasks.split import Split, sentences_table
from tasks.splitters.base import Passage, RewritingSplitter
from tasks.stage import Progress, RowsLost, ShardResult, Stage


class Rewrite(Stage):
    """Stage `split`, by a splitter that rewrites."""

    name: ClassVar[str] = "split"
    table: ClassVar[str] = "sentences"
    config: SplitConfig

    def __init__(self, store: Path, passages: Artifact, config: SplitConfig) -> None:
        """Raises ConfigError, GeneratorUnavailable, InputError."""
        super().__init__(store, {"passages": passages}, config)
        self.num_gpus = 1.0 if self.rewriter.uses_gpu else 0.0
        self.workers = self.rewriter.workers

    def __getstate__(self) -> dict[str, Any]:
        # A worker makes its own: a model does not travel.
        return {name: value for name, value in vars(self).items() if name != "rewriter"}

    @cached_property
    def rewriter(self) -> RewritingSplitter:
        rewriter: RewritingSplitter = resolve("splitter", self.config.splitter)(self.config)
        return rewriter

    def config_identity(self) -> dict[str, Any]:
        return {"splitter": self.config.splitter}

    def method_identity(self) -> dict[str, Any]:
        return self.rewriter.identity()

    def shards(self) -> list[int]:
        return [record.shard for record in self.inputs["passages"].completed().shards]

    def total_rows(self) -> int:
        return self.inputs["passages"].completed().rows["passages"]

    def work(self, shard: int, progress: Progress) -> ShardResult:
        table = pq.read_table(self.inputs["passages"].path(shard), columns=["passage_id", "title", "text"])
        passages = [Passage(**row) for row in table.to_pylist()]
        made = self.rewriter.rewrite(passages, progress)
        units = [_distinct(each) for each in made.units]
        notes = {"whole": sum(not each for each in units), **made.notes}
        rows = [
            (rewritten_id(passage.passage_id, texts, position), passage.passage_id, position, 0, 0, text)
            for passage, each in zip(passages, units, strict=True)
            for texts in [_spaced(each or [passage.text])]
            for position, text in enumerate(texts)
        ]
        return ShardResult(len(passages), {"sentences": sentences_table(rows)}, tokens=made.tokens, notes=notes)

    def check(self, manifest: Manifest) -> None:
        if manifest.rows_in != self.total_rows():
            raise RowsLost(f"split read {manifest.rows_in} of {self.total_rows()} passages")


def split_stage(store: Path, passages: Artifact, config: SplitConfig) -> Split | Rewrite:
    """The stage `split` of a configuration. Raises UnknownName, and what the splitter raises."""
    rewrites = getattr(resolve("splitter", config.splitter), "rewrites", False)
    return Rewrite(store, passages, config) if rewrites else Split(store, passages, config)


def _distinct(units: list[str]) -> list[str]:
    """In their order, each once, none blank, and without white space around them."""
    return [*dict.fromkeys(text for unit in units if (text := unit.strip()))]


def _spaced(units: list[str]) -> list[str]:
    """With a blank behind each but the last, as sentences have it: joined, they are a text."""
    return [*(f"{unit} " for unit in units[:-1]), units[-1]]
