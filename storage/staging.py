"""Rows on their way into shards: sorted by key on the disk, in bounded memory, each read a bounded number of times.

Rows come in any order and are written as *runs*, each sorted by key. A shard is a range of keys, and is cut from all
runs. That is much opening where there are many of both, so where there are more than PARTITIONS shards the runs are
*spread* first: every group of GROUP runs gives one sorted *segment* for each of PARTITIONS ranges of keys, and a shard
then reads the segments of its partition alone. So a row is written twice at most, and files are opened in proportion to
the rows.

A run is complete when its record exists, and a group is spread when its record exists: only then are its runs removed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vitalfew.storage import files
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.ids import ID_RANGE

PARTITIONS = 64
"""Ranges of keys that runs are spread over; a power of two, as the number of shards is."""
GROUP = 64
"""Runs that are spread at once: a segment is then as large as a run."""

_ORDER = [("key", "ascending"), ("ordinal", "ascending")]


@dataclass(frozen=True)
class Staging:
    """A folder of runs and segments. `tables`: the columns of every table, among them `key` (an id) and `ordinal` (the
    row's place in the input), both int64."""

    folder: Path
    tables: Mapping[str, pa.Schema]

    def records(self, *names: str) -> Iterator[dict[str, int]]:
        """These figures of the runs that are complete, in their order, up to the first whose record is damaged."""
        with suppress(FileNotFoundError, DamagedRecord):
            for number in count():
                yield files.read_record(self._record(number), lambda value: {name: int(value[name]) for name in names})

    def write(self, number: int, rows: Mapping[str, Sequence[Mapping[str, Any]]], record: Mapping[str, int]) -> None:
        """Write a run, and then its record."""
        for table, of_table in rows.items():
            if of_table:
                by_key = sorted(of_table, key=lambda row: (row["key"], row["ordinal"]))
                files.write_arrow(self._run(number, table), pa.Table.from_pylist(by_key, self.tables[table]))
        files.write_json(self._record(number), record)

    def spread(self, runs: int) -> None:
        """Spread the runs over PARTITIONS segments; continue where an earlier call ended."""
        for group in range(_groups(runs)):
            members = range(group * GROUP, min(runs, (group + 1) * GROUP))
            if not files.exists(self._spread(group)):
                for table in self.tables:
                    self._spread_table(table, group, [self._run(number, table) for number in members])
                files.write_json(self._spread(group), {"runs": len(members)})
            for table in self.tables:
                for number in members:
                    files.remove(self._run(number, table))

    def _spread_table(self, table: str, group: int, runs: Sequence[Path]) -> None:
        written = [path for path in runs if files.exists(path)]
        for partition in range(PARTITIONS):
            rows = _joined(self.tables[table], (_cut(path, partition, PARTITIONS) for path in written))
            if rows.num_rows:
                files.write_arrow(self._segment(partition, group, table), rows)

    def read(
        self,
        table: str,
        place: "StagedShard",
        columns: Sequence[str] | None = None,
        ordinals: NDArray[np.int64] | None = None,
    ) -> pa.Table:
        """A shard's rows by key and ordinal; of some columns, or those of some `ordinals`, only."""
        schema = self.tables[table]
        chosen = schema if columns is None else pa.schema([schema.field(name) for name in columns])
        return _joined(chosen, self._parts(table, place, chosen.names, ordinals))

    def _parts(
        self, table: str, place: "StagedShard", columns: Sequence[str], ordinals: NDArray[np.int64] | None
    ) -> Iterator[pa.Table]:
        """Cut the shard from every file that may hold rows of it. A look first whether the file is there would double
        the requests."""
        if is_spread(place.shards, place.runs):
            partition = place.shard * PARTITIONS // place.shards
            paths = [self._segment(partition, group, table) for group in range(_groups(place.runs))]
        else:
            paths = [self._run(number, table) for number in range(place.runs)]
        for path in paths:
            with suppress(FileNotFoundError):
                yield _cut(path, place.shard, place.shards, columns, ordinals)

    def _run(self, number: int, table: str) -> Path:
        return self.folder / f"run-{number:05d}.{table}.arrow"

    def _record(self, number: int) -> Path:
        return self.folder / f"run-{number:05d}.json"

    def _segment(self, partition: int, group: int, table: str) -> Path:
        return self.folder / f"segment-{partition:02d}-{group:05d}.{table}.arrow"

    def _spread(self, group: int) -> Path:
        return self.folder / f"spread-{group:05d}.json"


@dataclass(frozen=True)
class StagedShard:
    """A shard, the number of shards (a power of two), and the number of runs."""

    shard: int
    shards: int
    runs: int


def is_spread(shards: int, runs: int) -> bool:
    """Return true if runs are spread before shards are cut from them."""
    return runs > 1 and shards > PARTITIONS


def _groups(runs: int) -> int:
    return -(-runs // GROUP)


def _cut(
    path: Path, shard: int, shards: int, columns: Sequence[str] | None = None, ordinals: NDArray[np.int64] | None = None
) -> pa.Table:
    """A copy of a file's rows in a shard: a slice would keep the file mapped, and its pages count as memory."""
    rows = files.read_arrow(path)
    width = ID_RANGE // shards
    keys = rows["key"].to_numpy()
    start = np.searchsorted(keys, shard * width, "left")
    end = np.searchsorted(keys, shard * width + width - 1, "right")
    places = np.arange(start, end)
    if ordinals is not None:
        places = places[np.isin(rows["ordinal"].to_numpy()[start:end], ordinals)]
    return rows.select(columns or rows.column_names).take(pa.array(places))


def _joined(schema: pa.Schema, parts: Iterator[pa.Table]) -> pa.Table:
    whole = pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()
    return whole.take(pc.sort_indices(whole, sort_keys=_ORDER))
