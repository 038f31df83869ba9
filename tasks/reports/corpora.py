"""What differs between the corpora of two generations of an index: documents, passages, rejected rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.generations import Generation
from vitalfew.tasks.datasets.gold import file_of


class Sides(NamedTuple):
    """A number of rows in each of two generations."""

    before: int
    after: int


@dataclass(frozen=True)
class CorpusChanges:
    """`documents`: a row per document with its passages `before` and `after`, and `kept`: those that have the same text
    in both. `passages`, `rejects`: how many rows before and after. `is_cut_alike`: both were cut into passages by the
    same settings, so that the numbers of passages can be compared.
    """

    documents: pl.DataFrame
    passages: Sides
    rejects: Sides
    is_cut_alike: bool

    @property
    def removed(self) -> pl.DataFrame:
        """The documents that are gone: neither their name nor the text of any of their passages is in the second."""
        return self.documents.filter((pl.col("before") > 0) & (pl.col("after") == 0) & (pl.col("kept") == 0))

    def losses(self, max_removed: float, max_rejects: float) -> list[str]:
        """Say what was lost beyond what is accepted."""
        said = []
        known = self.documents.filter(pl.col("before") > 0).height
        for lost, of, name in (
            (self.removed.height, known, "documents"),
            (self.passages.before - self.passages.after if self.is_cut_alike else 0, self.passages.before, "passages"),
        ):
            if of and lost / of >= max_removed:
                said.append(f"lost {lost:,} of {of:,} {name} ({lost / of:.0%})")
        both = zip(self.rejects, self.passages, strict=True)
        before, after = (rejected / max(1, rejected + passages) for rejected, passages in both)
        if after - before > max_rejects:
            more = self.rejects.after - self.rejects.before
            said.append(f"rejected {self.rejects.after:,} rows, {more:,} more than before")
        return said


def corpus_changes(store: Path, before: Generation, after: Generation) -> CorpusChanges:
    """Compare the corpora of two generations. Memory: 16 bytes and a name per passage. Raises FileNotFoundError where
    `store gc` has removed one."""
    sides = [each.index.located(store)["passages"] for each in (before, after)]
    frames = [_passages(side) for side in sides]
    shared = frames[0].join(frames[1].select("passage_id"), on="passage_id", how="semi")
    counted = [
        frame.group_by("document").len(name)
        for frame, name in zip([*frames, shared], ("before", "after", "kept"), strict=True)
    ]
    documents = counted[0].join(counted[1], on="document", how="full", coalesce=True)
    documents = documents.join(counted[2], on="document", how="left").fill_null(0).sort("document")
    rows = [side.completed().rows for side in sides]
    return CorpusChanges(
        documents,
        Sides(*(frame.height for frame in frames)),
        Sides(*(each.get("rejects", 0) for each in rows)),
        _cut(before) == _cut(after),
    )


def _passages(artifact: Artifact) -> pl.DataFrame:
    """The passages of a corpus with their documents: the file, else the title, else each passage is one."""
    columns = ["passage_id", "source_id", "title"]
    shards = [pl.DataFrame(artifact.read(record.shard, columns=columns)) for record in artifact.completed().shards]
    rows = pl.concat(shards) if shards else pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    names = rows["source_id"].unique()
    files = dict(zip(names, map(file_of, names), strict=True))
    file = pl.col("source_id").replace_strict(files, return_dtype=pl.String) if files else pl.col("source_id")
    named = pl.when(file != "").then(file).when(pl.col("title") != "").then("title")
    return rows.select("passage_id", document=named.otherwise(pl.col("passage_id").cast(pl.String)))


def _cut(generation: Generation) -> object:
    """The settings by which documents are cut into passages."""
    options = [dataset.partition("?")[2] for dataset in generation.config.get("datasets", [])]
    return options, {key: value for key, value in generation.config.get("load", {}).items() if "shard" not in key}
