"""split: `passages` → `sentences`, by a splitter that cuts (trained on a sample of the corpus) or one that rewrites.

A splitter that rewrites gives propositions, which are not parts of their passage: such a row has no place in it
(start = end = 0), and nothing downstream may treat it as a part. Its id depends on its passage and on all units
of the passage, because the other units are its context. A passage without units stays whole, as its only unit, and is
counted in the manifest (`whole`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.configs.schema import SplitConfig
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.ids import rewritten_id, sentence_id
from vitalfew.tasks.registry import construct, resolve
from vitalfew.tasks.splitters.base import RewritingSplitter, Splitter, StoredPassage, TrainedOptions, sample
from vitalfew.tasks.splitters.partition import Ranges, are_at_most, cut, token_ends
from vitalfew.tasks.splitters.tokens import TOKENS
from vitalfew.tasks.stage import MethodStage, Progress, RowsLost, ShardResult, Stage


class SplitStage(Stage):
    """Stage `split`, however its splitter works."""

    name: ClassVar[str] = "split"
    table: ClassVar[str] = "sentences"
    over: ClassVar[str] = "passages"
    section: ClassVar[str] = "split"
    role: ClassVar[str | None] = "splitter"

    def check(self, manifest: Manifest) -> None:
        if manifest.rows_in != self.total_rows():
            raise RowsLost(f"split read {manifest.rows_in} of {self.total_rows()} passages")


class Split(SplitStage):
    """Stage `split` by cutting. The trained parameters are beside the sentences, in `parameters.json`."""

    config: TrainedOptions

    def __init__(self, store: Path, passages: Artifact, config: SplitConfig) -> None:
        """Raises UnknownName, ConfigError."""
        self.method: type[Splitter] = resolve("splitter", config.splitter)
        super().__init__(store, {"passages": passages}, config)

    def method_identity(self) -> dict[str, Any]:
        return {"splitter": self.config.splitter, "version": self.method.version, "cut": "1"}

    @property
    def parameters(self) -> Path:
        return self.artifact.file("parameters.json")

    def prepared(self) -> list[Path]:
        return [self.parameters]

    def prepare(self, progress: Progress) -> None:
        files.write_json(self.parameters, construct(self.config).train(self._sample()))

    def _sample(self) -> Iterator[str]:
        """Texts from all shards in equal parts, at most `sample_chars` characters."""
        shards = self.shards()
        budget = max(1, self.config.sample_chars // len(shards))
        for shard in shards:
            batches = self.inputs["passages"].open(shard).iter_batches(batch_size=256, columns=["text"])
            yield from sample((text for batch in batches for text in batch["text"].to_pylist()), budget)

    def open(self) -> None:
        """Raises FileNotFoundError, and DamagedRecord if the parameters have changed since they were written."""
        self.splitter: Splitter = construct(self.config)
        files.read_record(self.parameters, self.splitter.load)

    def work(self, shard: int, progress: Progress) -> ShardResult:
        passages = self.inputs["passages"].read(shard, columns=["passage_id", "text"])
        ids, texts = passages["passage_id"].to_pylist(), passages["text"].to_pylist()
        rows = []
        for number, (passage, text) in enumerate(zip(ids, texts, strict=True), 1):
            spans = [part for start, end in self.splitter.split(text) for part in self._fitting(text, start, end)]
            if "".join(text[start:end] for start, end in spans) != text:
                raise RowsLost(f"splitter {self.config.splitter} does not reproduce passage {passage}")
            for position, (start, end) in enumerate(spans):
                rows.append((sentence_id(passage, start, end), passage, position, start, end, text[start:end]))
            if number % 256 == 0:
                progress(256, 0)
        progress(len(ids) % 256, 0)
        return ShardResult(len(ids), {"sentences": sentences_table(rows)})

    def _fitting(self, text: str, start: int, end: int) -> Ranges:
        """A unit, in parts where it has more tokens than `max_tokens`."""
        unit, most = text[start:end], self.config.max_tokens
        if are_at_most(unit, most):
            return [(start, end)]
        return [(start + first, start + last) for first, last in cut(unit, token_ends(unit), most)]


def sentences_table(rows: list[tuple[int, int, int, int, int, str]]) -> pa.Table:
    """The table `sentences`. The rows have all columns but the last, the tokens, which are counted here."""
    columns: list[Any] = [np.array(column) for column in list(zip(*rows, strict=True))[:5]] if rows else [[]] * 5
    texts = pa.array([row[5] for row in rows], pa.string())
    tokens = pc.subtract(*(pc.count_substring_regex(texts, pattern) for pattern in TOKENS))
    arrays = [pa.array(column) for column in columns]
    return pa.table(dict(zip(schemas.SENTENCES.names, [*arrays, texts, tokens], strict=True))).cast(schemas.SENTENCES)


class Rewrite(SplitStage, MethodStage):
    """Stage `split`, by a splitter that rewrites."""

    method: RewritingSplitter
    config: SplitConfig

    def __init__(self, store: Path, passages: Artifact, config: SplitConfig) -> None:
        """Raises ConfigError, EngineUnavailable, InputError."""
        super().__init__(store, {"passages": passages}, config)

    def work(self, shard: int, progress: Progress) -> ShardResult:
        table = self.inputs["passages"].read(shard, columns=["passage_id", "title", "text"])
        passages = [StoredPassage(**row) for row in table.to_pylist()]
        rewritten = self.method.rewrite(passages, progress)
        units = [_distinct(texts) for texts in rewritten.units]
        notes = {"whole": sum(not texts for texts in units), **rewritten.notes}
        rows = []
        for passage, own in zip(passages, units, strict=True):
            *others, last = own or [passage.text]
            texts = [*(f"{text} " for text in others), last]  # so that they join to a text, as sentences do
            for position, text in enumerate(texts):
                identity = rewritten_id(passage.passage_id, texts, position)
                rows.append((identity, passage.passage_id, position, 0, 0, text))
        return ShardResult(len(passages), {"sentences": sentences_table(rows)}, tokens=rewritten.tokens, notes=notes)


def split_stage(store: Path, passages: Artifact, config: SplitConfig) -> SplitStage:
    """The stage `split` of a configuration. Raises UnknownName, and the errors of the splitter."""
    rewrites = getattr(resolve("splitter", config.splitter), "rewrites", False)
    return Rewrite(store, passages, config) if rewrites else Split(store, passages, config)


def _distinct(units: list[str]) -> list[str]:
    """The distinct units in order, stripped of white space, without blank ones."""
    return [*dict.fromkeys(text for unit in units if (text := unit.strip()))]
