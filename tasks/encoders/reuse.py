"""Reuse of vectors that earlier artifacts of the store hold, looked up by encoder and text.

Ids come from content: a sentence's id from its passage's text and its span, a passage's id from its text. So an id,
the title that was encoded with it and a kind determine the encoded text in any corpus, and if one passage in a hundred
changes, or its title does, the encoder runs for that one only. A key is an id mixed with its title (titles.py). Where
no title was encoded it is the id, so that vectors of texts without a title are reused whatever encode.text was.

Shards are ranges of passage ids, and their number is a power of two: the vectors for a shard lie in the one earlier
shard that covers its range, or in the few shards that partition it, and the join stays within a shard.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, fingerprint
from vitalfew.storage.ids import ID_RANGE
from vitalfew.storage.schemas import VECTOR_KINDS
from vitalfew.tasks.encoders.base import Vectors
from vitalfew.tasks.encoders.contexts import KnownVectors, is_late
from vitalfew.tasks.encoders.titles import salts

Keys = Mapping[str, NDArray[np.int64]]
"""The keys of some units by kind of vector."""


class Held(NamedTuple):
    """Keys of vectors, and their rows in their file."""

    keys: NDArray[np.int64]
    rows: NDArray[np.int64]


MOST_BASES = 4
"""The maximal number of earlier artifacts to read: reading their ids costs time, and a nightly job leaves hundreds."""


@dataclass(frozen=True)
class Base:
    """An earlier `vectors` artifact of some `units`, `of` shards; `shards` were complete at the choice. `titled`: the
    passages whose titles it encoded; None if it encoded none."""

    artifact: Artifact
    units: Artifact
    of: int
    shards: frozenset[int]
    titled: Artifact | None = None

    def covering(self, shard: int, of: int) -> Iterator[int]:
        """Its shards with ids of `shard`, one of `of`."""
        first, last = shard * self.of // of, ((shard + 1) * self.of - 1) // of
        return (number for number in range(first, last + 1) if number in self.shards)

    def sources(self) -> list[Artifact]:
        """What tells the keys of its vectors."""
        return [self.artifact, *([self.units, self.titled] if self.titled else [])]

    def keys(self, shard: int) -> dict[str, "Held"]:
        """Of the vectors in one of its shards, by kind; none where that is not as it was written, by its checksum."""
        if not all(artifact.record(shard) for artifact in self.sources()):
            return {}
        held = _read_ids(self.artifact.path(shard))
        if self.titled is None:
            return held
        known, of_known = self._salts(shard, self.titled)
        order = np.argsort(known)
        places = {kind: order[np.searchsorted(known, ids, sorter=order)] for kind, (ids, _) in held.items()}
        return {kind: Held(ids ^ of_known[places[kind]], rows) for kind, (ids, rows) in held.items()}

    def _salts(self, shard: int, titled: Artifact) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids of a shard's passages and sentences, and the salts of their titles."""
        table = titled.read(shard, columns=["passage_id", "title"])
        passages, of_passages = table["passage_id"].to_numpy(), salts(table["title"].to_pylist())
        if self.units.table == "passages":
            return passages, of_passages
        sentences = self.units.read(shard, columns=["sentence_id", "passage_id"])
        owners = np.searchsorted(passages, sentences["passage_id"].to_numpy())
        ids = np.concatenate([passages, sentences["sentence_id"].to_numpy()])
        return ids, np.concatenate([of_passages, of_passages[owners]])

    def passage_keys(self, shard: int) -> NDArray[np.int64]:
        """Of the passages in one of its shards."""
        if not all(artifact.record(shard) for artifact in (self.units, *self.sources()[2:])):
            return np.empty(0, np.int64)
        if self.titled is None:
            return self.units.read(shard, columns=["passage_id"])["passage_id"].to_numpy()
        table = self.titled.read(shard, columns=["passage_id", "title"])
        return table["passage_id"].to_numpy() ^ salts(table["title"].to_pylist())

    def to_json(self) -> dict[str, Any]:
        names = {"artifact": self.artifact.name, "units": self.units.name}
        titled = {"titled": self.titled.name} if self.titled else {}
        return {**names, **titled, "of": self.of, "shards": sorted(self.shards)}

    @classmethod
    def from_json(cls, store: Path, value: Mapping[str, Any]) -> "Base":
        artifact, units = (Artifact(store, *value[name].split("/")) for name in ("artifact", "units"))
        titled = Artifact(store, *value["titled"].split("/")) if "titled" in value else None
        return cls(artifact, units, value["of"], frozenset(value["shards"]), titled)


def candidates(own: Artifact, description: Mapping[str, Any]) -> list[Base]:
    """The other artifacts of the store, complete or not, that hold what this one's encoder would give."""
    bases = []
    for directory in files.folders(own.store / "vectors"):
        artifact = Artifact(own.store, "vectors", directory.name)
        other = artifact.description()
        if artifact == own or other is None or not _alike(other, description):
            continue
        inputs = {role: Artifact(own.store, *name.split("/")) for role, name in other["inputs"].items()}
        units = inputs.get("sentences") or inputs["passages"]
        titled = inputs["passages"] if "titled" in other["method"] else None
        manifest = units.recorded_manifest()
        if manifest is not None:
            numbers = [record.shard for record in manifest.shards]
            whole = frozenset(number for number in numbers if artifact.marked(number))
            bases.append(Base(artifact, units, len(numbers), whole, titled))
    return bases


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two descriptions give a text the same vector, and precede it by titles in one way, if at all."""
    forms = [description["method"]["titled"] for description in (one, other) if "titled" in description["method"]]
    return _encoding(one) == _encoding(other) and all(form == forms[0] for form in forms)


def _encoding(description: Mapping[str, Any]) -> str:
    """A fingerprint of all that a vector depends on besides its text. `late` encodes a sentence in its passage.

    A new description and a stored one (whose tuples became lists) have the same fingerprint."""
    config = description["config"]
    late = is_late(config["context"], config["units"])
    method = {name: value for name, value in description["method"].items() if name != "titled"}
    return fingerprint(version=description["version"], method=method, late=late)


def choose(bases: Iterable[Base], keys: Keys, shards: Sequence[int], of: int) -> list[Base]:
    """The bases that hold most of the units of some shards (of `of`): every choice adds the most missing units, where
    those of a base that is not complete count for the share of its shards that are."""
    left = {kind: of_kind for kind, of_kind in keys.items() if len(of_kind)}
    chosen: list[Base] = []
    rest = {base: _keys_of(base, shards, of) for base in bases}
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


def _keys_of(base: Base, shards: Sequence[int], of: int) -> dict[str, NDArray[np.int64]]:
    numbers = sorted({number for shard in shards for number in base.covering(shard, of)})
    parts = [keys for number in numbers if (keys := base.keys(number))]
    return {
        kind: np.concatenate([np.empty(0, np.int64), *(part[kind].keys for part in parts)]) for kind in VECTOR_KINDS
    }


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


def find(bases: Iterable[Base], keys: Keys, shard: int, of: int, dimension: int) -> dict[str, KnownVectors]:
    """The vectors of a shard's units that the bases hold; the first base that holds one gives it."""
    known = {kind: KnownVectors.nothing(len(of_kind), dimension) for kind, of_kind in keys.items()}
    for base in bases:
        for number in base.covering(shard, of):
            if all(vectors.found.all() for vectors in known.values()):
                return known
            if held := base.keys(number):  # else the shard was removed since it was chosen, or is damaged
                _take(base.artifact.path(number), held, keys, known)
    return known


def _take(path: Path, held: Mapping[str, Held], keys: Keys, known: Mapping[str, KnownVectors]) -> None:
    """Fill in the missing vectors that this file holds."""
    targets: list[tuple[KnownVectors, NDArray[np.int64], NDArray[np.int64]]] = []
    for kind, (of_kind, rows) in held.items():
        if kind not in keys or not len(of_kind):
            continue
        missing = np.flatnonzero(~known[kind].found)
        order = np.argsort(of_kind)
        places = order[np.minimum(np.searchsorted(of_kind, keys[kind][missing], sorter=order), len(of_kind) - 1)]
        same = of_kind[places] == keys[kind][missing]
        targets.append((known[kind], missing[same], rows[places[same]]))
    for start, vectors in _row_groups(path, [rows for _, _, rows in targets]):
        for target, places, rows in targets:
            here = (rows >= start) & (rows < start + len(vectors))
            target.vectors[places[here]] = vectors[rows[here] - start]
            target.found[places[here]] = True


def _read_ids(path: Path) -> dict[str, Held]:
    """By kind, the ids: the keys of what was encoded without titles."""
    table = files.read_table(path, columns=["id", "kind"])
    ids = table["id"].to_numpy()
    kinds = table["kind"].cast(pa.string()).to_numpy(zero_copy_only=False)
    return {kind: Held(ids[rows], rows) for kind in VECTOR_KINDS for rows in [np.flatnonzero(kinds == kind)]}


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
