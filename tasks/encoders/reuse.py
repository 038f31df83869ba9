"""Reuse of vectors that earlier artifacts of the store hold, looked up by encoder and text.

Ids come from content: a sentence's id from its passage's text and its span, a passage's id from its text. So an id,
the title that was encoded with it and a kind determine the encoded text in any corpus, and if one passage in a hundred
changes, or its title does, the encoder runs for that one only. A key is an id mixed with its title (titles.py). Where
no title was encoded it is the id, so that vectors of texts without a title are reused whatever encode.text was.

Shards are ranges of passage ids, and their number is a power of two: the vectors for a shard are in the one earlier
shard that covers its range, or in the few shards that partition it, and the join stays within a shard.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.costs import Reused
from vitalfew.storage.ids import ID_RANGE
from vitalfew.storage.indexes.remembered import encoding_of
from vitalfew.storage.schemas import VECTOR_KINDS
from vitalfew.tasks.encoders.contexts import KnownVectors, nothing_known
from vitalfew.tasks.encoders.titles import salts

if TYPE_CHECKING:
    import polars as pl  # functions import it where they work, because a search imports this module

Keys = Mapping[str, NDArray[np.int64]]
"""The keys of some units by kind of vector."""
KEY = ("kind", "key")
MOST_BASES = 4
"""The maximal number of earlier artifacts to read: reading their ids costs time, and a nightly job leaves hundreds."""


@dataclass(frozen=True)
class Base:
    """An earlier `vectors` artifact of some `units`, of `of` shards, of which `shards` are complete. `titled`: the
    passages whose titles it encoded; None if it encoded none."""

    artifact: Artifact
    units: Artifact
    of: int
    shards: frozenset[int]
    titled: Artifact | None = None

    @classmethod
    def at(cls, artifact: Artifact) -> "Base | None":
        """None where its units are gone."""
        description = artifact.description()
        if description is None or description["stage"] != "encode":  # that of encode_later has no vectors
            return None
        inputs = {role: Artifact(artifact.store, *name.split("/")) for role, name in description["inputs"].items()}
        units = inputs.get("sentences") or inputs["passages"]
        titled = inputs["passages"] if "titled" in description["method"] else None
        if (manifest := units.recorded_manifest()) is None:
            return None
        numbers = [record.shard for record in manifest.shards]
        return cls(artifact, units, len(numbers), frozenset(filter(artifact.marked, numbers)), titled)

    def covering(self, shard: int, of: int) -> Iterator[int]:
        """Its shards with ids of `shard`, one of `of`."""
        first, last = shard * self.of // of, ((shard + 1) * self.of - 1) // of
        return (number for number in range(first, last + 1) if number in self.shards)

    def sources(self) -> list[Artifact]:
        """The artifacts that determine the keys of its vectors."""
        return [self.artifact, *([self.units, self.titled] if self.titled else [])]

    def keys(self, shard: int) -> "pl.DataFrame":
        """Kind, key and row of the vectors in one of its shards; empty unless every file has its recorded checksum."""
        import polars as pl

        if not all(artifact.record(shard) for artifact in self.sources()):
            return _frame({}, "row")
        table = files.read_table(self.artifact.path(shard), columns=["id", "kind"])
        vectors = pl.DataFrame(table).with_row_index("row").cast({"kind": pl.Enum(VECTOR_KINDS)})
        if self.titled is None:
            return vectors.select("row", "kind", key="id")
        table = self.titled.read(shard, columns=["passage_id", "title"])
        titles = pl.DataFrame({"id": table["passage_id"].to_numpy(), "salt": salts(table["title"].to_pylist())})
        if self.units.table == "sentences":
            units = pl.DataFrame(self.units.read(shard, columns=["sentence_id", "passage_id"]))
            of_titles = units.join(titles, left_on="passage_id", right_on="id")
            titles = pl.concat([titles, of_titles.select("salt", id="sentence_id").select("id", "salt")])
        return vectors.join(titles, on="id").select("row", "kind", key=pl.col("id") ^ pl.col("salt"))

    def passage_keys(self, shard: int) -> NDArray[np.int64]:
        """The keys of the passages in one of its shards."""
        if not all(artifact.record(shard) for artifact in (self.units, *self.sources()[2:])):
            return np.empty(0, np.int64)
        if self.titled is None:
            return self.units.read(shard, columns=["passage_id"])["passage_id"].to_numpy()
        table = self.titled.read(shard, columns=["passage_id", "title"])
        return table["passage_id"].to_numpy() ^ salts(table["title"].to_pylist())


def candidates(own: Artifact, description: Mapping[str, Any]) -> list[Base]:
    """The other artifacts of the store, complete or not, that hold what this one's encoder would give."""
    bases = []
    for directory in files.folders(own.store / "vectors"):
        artifact = Artifact(own.store, "vectors", directory.name)
        other = artifact.description()
        if artifact != own and other is not None and _alike(other, description) and (base := Base.at(artifact)):
            bases.append(base)
    return bases


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two descriptions give a text the same vector, and precede it by titles in one way, if at all."""
    forms = [description["method"]["titled"] for description in (one, other) if "titled" in description["method"]]
    return encoding_of(one) == encoding_of(other) and all(form == forms[0] for form in forms)


def choose(bases: Iterable[Base], keys: Keys, shards: Sequence[int], of: int) -> list[Base]:
    """The bases that hold most of the units of some shards (of `of`): every choice adds the most missing units, where
    those of a base that is not complete count for the share of its shards that are."""
    import polars as pl

    left, chosen = _frame(keys), list[Base]()
    numbers = {base: sorted({n for shard in shards for n in base.covering(shard, of)}) for base in bases}
    rest = {base: pl.concat([_frame({}, "row"), *map(base.keys, covering)]) for base, covering in numbers.items()}
    while rest and len(left) and len(chosen) < MOST_BASES:
        gains = {
            base: len(left.join(held, on=KEY, how="semi")) * len(base.shards) / base.of for base, held in rest.items()
        }
        best = max(gains, key=lambda base: (gains[base], base.artifact.fingerprint))
        if not gains[best]:
            break
        left = left.join(rest.pop(best), on=KEY, how="anti")
        chosen.append(best)
    return chosen


def _frame(keys: Keys, number: str = "place") -> "pl.DataFrame":
    """The columns kind, key and `number`: the place of a key among those of its kind."""
    import polars as pl

    schema = pl.Schema({number: pl.get_index_type(), "kind": pl.Enum(VECTOR_KINDS), "key": pl.Int64})
    parts = [pl.DataFrame({"kind": kind, "key": of_kind}).with_row_index(number) for kind, of_kind in keys.items()]
    return pl.concat([pl.DataFrame(schema=schema), *(part.cast(schema) for part in parts)])


def share_known(bases: Iterable[Base], passages: NDArray[np.int64], of_passages: NDArray[np.int64]) -> float:
    """The share of some passages, the ones with the smallest ids of a corpus, that the bases know. `of_passages`: the
    salts of their titles, 0 where these are not encoded."""
    if not len(passages):
        return 0.0
    known = []
    for base in bases:
        last = int(passages.max()) * base.of // ID_RANGE
        held = [base.passage_keys(shard) for shard in range(last + 1) if shard in base.shards]
        known.append(np.isin(passages ^ of_passages, np.concatenate([np.empty(0, np.int64), *held])))
    best = sorted(known, key=lambda is_known: -is_known.sum())[:MOST_BASES]
    return float(np.any(best, axis=0).mean()) if best else 0.0


def find(
    bases: Iterable[Base], keys: Keys, shard: int, of: int, dimension: int
) -> tuple[dict[str, KnownVectors], Reused]:
    """The vectors of a shard's units that the bases hold; the first base that holds one gives it. And what these
    vectors had taken."""
    known = nothing_known(map(len, keys.values()), dimension)
    missing, took = _frame(keys), Reused()
    for base in bases:
        for number in base.covering(shard, of):
            if not len(missing):
                return known, took
            held = base.keys(number)  # empty where the shard was removed since it was chosen, or is damaged
            taken = missing.join(held, on=KEY)
            missing = missing.join(held, on=KEY, how="anti")
            if len(taken):
                _take(base.artifact.path(number), taken, known)
                took += _took(base.artifact, number, len(taken))
    return known, took


def _took(artifact: Artifact, shard: int, rows: int) -> Reused:
    """The cost of a number of a shard's vectors, as the mean of its vectors: of those that it computed, or of those
    that it had copied itself, whichever are more. A mean of a few would have the loading of the model."""
    record = artifact.record(shard)
    if record is None:
        return Reused()
    every, copied, cost = record.rows(artifact.table), record.notes.get("reused", 0), record.cost
    if 2 * copied > every and cost.reused_wall_seconds:
        return Reused(cost.reused_tokens, cost.reused_wall_seconds, cost.reused_cpu_seconds) * (rows / copied)
    computed = max(1, every - copied)
    return Reused(cost.tokens, cost.wall_seconds, cost.cpu_seconds) * (rows / computed)


def _take(path: Path, taken: "pl.DataFrame", known: Mapping[str, KnownVectors]) -> None:
    """Read these rows of a file, which go to these places; only one row group is in memory at a time."""
    start, rows = 0, taken["row"].to_numpy()
    with files.OpenTable(path) as file:
        for group in range(file.metadata.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if (here := (rows >= start) & (rows < start + size)).any():
                column = file.read_row_group(group, columns=["vector"])["vector"].combine_chunks()
                vectors = column.flatten().to_numpy().reshape(size, -1)
                for (kind,), part in taken.filter(here).partition_by("kind", as_dict=True).items():
                    places = part["place"].to_numpy()
                    known[kind].vectors[places] = vectors[part["row"].to_numpy() - start]
                    known[kind].found[places] = True
            start += size
