"""Reuse of vectors that earlier artifacts of the store hold, looked up by encoder and text.

Ids come from content: a sentence's id from its passage's text and its span, a passage's id from its text. So an id and
a kind determine the encoded text in any corpus, and if one passage in a hundred changes, the encoder runs for that one
only. Shards are ranges of passage ids, and their number is a power of two: the vectors for a shard lie in the one
earlier shard that covers its range, or in the few shards that partition it, and the join stays within a shard.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from storage import files
from storage.artifacts import Artifact, fingerprint
from storage.ids import ID_RANGE
from storage.schemas import VECTOR_KINDS
from tasks.encoders.base import Vectors
from tasks.encoders.contexts import Known, is_late

Ids = Mapping[str, NDArray[np.int64]]
"""The ids of some units by kind of vector."""

MOST_BASES = 4
"""The maximal number of earlier artifacts to read: reading their ids costs time, and a nightly job leaves hundreds."""


@dataclass(frozen=True)
class Base:
    """An earlier `vectors` artifact of some `units`, `of` shards; `shards` were complete at the choice."""

    artifact: Artifact
    units: Artifact
    of: int
    shards: frozenset[int]

    def covering(self, shard: int, of: int) -> Iterator[int]:
        """Its shards with ids of `shard`, one of `of`."""
        first, last = shard * self.of // of, ((shard + 1) * self.of - 1) // of
        return (number for number in range(first, last + 1) if number in self.shards)

    def to_json(self) -> dict[str, Any]:
        names = {"artifact": self.artifact.name, "units": self.units.name}
        return {**names, "of": self.of, "shards": sorted(self.shards)}

    @classmethod
    def from_json(cls, store: Path, value: Mapping[str, Any]) -> "Base":
        artifact, units = (Artifact(store, *value[name].split("/")) for name in ("artifact", "units"))
        return cls(artifact, units, value["of"], frozenset(value["shards"]))


def candidates(own: Artifact, description: Mapping[str, Any]) -> list[Base]:
    """The other artifacts of the store, complete or not, that hold what this one's encoder would give."""
    bases = []
    for directory in files.folders(own.store / "vectors"):
        artifact = Artifact(own.store, "vectors", directory.name)
        other = artifact.description()
        if artifact == own or other is None or _encoding(other) != _encoding(description):
            continue
        name = next(name for role, name in other["inputs"].items() if role in ("sentences", "passages"))
        units = Artifact(own.store, *name.split("/"))
        manifest = units.recorded_manifest()
        if manifest is not None:
            numbers = [record.shard for record in manifest.shards]
            whole = frozenset(number for number in numbers if artifact.marked(number))
            bases.append(Base(artifact, units, len(numbers), whole))
    return bases


def _encoding(description: Mapping[str, Any]) -> str:
    """A fingerprint of all that a unit's vector depends on besides its text. `late` encodes a sentence in its passage.

    A new description and a stored one (whose tuples became lists) have the same fingerprint."""
    config = description["config"]
    late = is_late(config["context"], config["units"])
    return fingerprint(version=description["version"], method=description["method"], late=late)


def choose(bases: Iterable[Base], ids: Ids, shards: Sequence[int], of: int) -> list[Base]:
    """The bases that hold most of the units of some shards (of `of`): every choice adds the most missing units, where
    those of a base that is not complete count for the share of its shards that are."""
    left = {kind: unit_ids for kind, unit_ids in ids.items() if len(unit_ids)}
    chosen: list[Base] = []
    rest = {base: _ids_of(base, shards, of) for base in bases}
    while rest and left and len(chosen) < MOST_BASES:
        gains = {
            base: sum(int(np.isin(left[k], held[k]).sum()) for k in left) * len(base.shards) / base.of
            for base, held in rest.items()
        }
        best = max(gains, key=lambda base: (gains[base], base.artifact.fingerprint))
        if not gains[best]:
            break
        held = rest.pop(best)
        left = {kind: missing for kind in left if len(missing := left[kind][~np.isin(left[kind], held[kind])])}
        chosen.append(best)
    return chosen


def _ids_of(base: Base, shards: Sequence[int], of: int) -> dict[str, NDArray[np.int64]]:
    numbers = sorted({number for shard in shards for number in base.covering(shard, of)})
    parts = [_read_ids(base.artifact.path(number)) for number in numbers if base.artifact.record(number)]
    return {kind: np.concatenate([np.empty(0, np.int64), *(part[kind][0] for part in parts)]) for kind in VECTOR_KINDS}


def share_known(bases: Iterable[Base], passages: NDArray[np.int64]) -> float:
    """The share of some passages, the ones with the smallest ids of a corpus, that the bases know."""
    if not len(passages):
        return 0.0
    known = []
    for base in bases:
        held = [np.empty(0, np.int64)]
        for shard in range(int(passages.max()) * base.of // ID_RANGE + 1):
            if shard in base.shards and base.units.record(shard):
                held.append(base.units.read(shard, columns=["passage_id"])["passage_id"].to_numpy())
        known.append(np.isin(passages, np.concatenate(held)))
    best = sorted(known, key=lambda is_known: -is_known.sum())[:MOST_BASES]
    return float(np.any(best, axis=0).mean()) if best else 0.0


def find(bases: Iterable[Base], ids: Ids, shard: int, of: int, dimension: int) -> dict[str, Known]:
    """The vectors of a shard's units that the bases hold; the first base that holds one gives it."""
    known = {kind: Known.nothing(len(unit_ids), dimension) for kind, unit_ids in ids.items()}
    for base in bases:
        for number in base.covering(shard, of):
            if all(vectors.found.all() for vectors in known.values()):
                return known
            if base.artifact.record(number):  # unchanged since it was written, by its checksum
                _take(base.artifact.path(number), ids, known)
    return known


def _take(path: Path, ids: Ids, known: Mapping[str, Known]) -> None:
    """Fill in the missing vectors that this file holds."""
    targets: list[tuple[Known, NDArray[np.int64], NDArray[np.int64]]] = []
    for kind, (held, rows) in _read_ids(path).items():
        if kind not in ids or not len(held):
            continue
        missing = np.flatnonzero(~known[kind].found)
        order = np.argsort(held)
        places = order[np.minimum(np.searchsorted(held, ids[kind][missing], sorter=order), len(held) - 1)]
        same = held[places] == ids[kind][missing]
        targets.append((known[kind], missing[same], rows[places[same]]))
    for start, vectors in _row_groups(path, [rows for _, _, rows in targets]):
        for target, places, rows in targets:
            here = (rows >= start) & (rows < start + len(vectors))
            target.vectors[places[here]] = vectors[rows[here] - start]
            target.found[places[here]] = True


def _read_ids(path: Path) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """By kind: ids, and their rows in the file."""
    table = files.read_table(path, columns=["id", "kind"])
    ids = table["id"].to_numpy()
    kinds = table["kind"].cast(pa.string()).to_numpy(zero_copy_only=False)
    return {kind: (ids[rows], rows) for kind in VECTOR_KINDS for rows in [np.flatnonzero(kinds == kind)]}


def _row_groups(path: Path, wanted: list[NDArray[np.int64]]) -> Iterator[tuple[int, Vectors]]:
    """First row and vectors of every row group with a wanted row; only one row group is in memory at a time."""
    start = 0
    with files.open_table(path) as file:
        for group in range(file.metadata.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if any(((rows >= start) & (rows < start + size)).any() for rows in wanted):
                column = file.read_row_group(group, columns=["vector"])["vector"].combine_chunks()
                yield start, column.flatten().to_numpy().reshape(size, -1)
            start += size
