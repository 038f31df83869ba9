"""Staging: whatever is written in runs comes back in shards, spread or not, however often it is killed."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.storage import staging
from vitalfew.storage.ids import ID_RANGE
from vitalfew.storage.staging import StagedShard, Staging, is_spread

TABLES = {
    name: pa.schema([("key", pa.int64()), ("ordinal", pa.int64()), ("text", pa.string())]) for name in ("one", "other")
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "PARTITIONS", 4)
    monkeypatch.setattr(staging, "GROUP", 3)


def rows(*keys: int, start: int = 0) -> list[dict[str, object]]:
    return [{"key": key, "ordinal": start + place, "text": f"{key} {place}"} for place, key in enumerate(keys)]


def written(folder: Path, keys: list[int], size: int) -> tuple[Staging, int, list[dict[str, object]]]:
    """Runs of `size` rows, their number, and the rows."""
    stage, every = Staging(folder, TABLES), rows(*keys)
    runs = [every[start : start + size] for start in range(0, len(every), size)]
    for number, run in enumerate(runs):
        stage.write(number, {"one": run, "other": []}, {"rows": len(run)})
    return stage, len(runs), every


@settings(max_examples=20)
@given(st.lists(st.integers(0, ID_RANGE - 1), max_size=60), st.integers(1, 9), st.sampled_from([1, 4, 8, 32]))
def test_every_row_is_in_the_shard_of_its_key(tmp_path_factory, keys: list[int], size: int, shards: int) -> None:
    stage, runs, every = written(tmp_path_factory.mktemp("staging"), keys, size)
    if is_spread(shards, runs):
        stage.spread(runs)
    parts = [stage.read("one", StagedShard(shard, shards, runs)).to_pylist() for shard in range(shards)]
    assert [row for part in parts for row in part] == sorted(every, key=lambda row: (row["key"], row["ordinal"]))
    assert all(row["key"] * shards // ID_RANGE == shard for shard, part in enumerate(parts) for row in part)
    assert stage.read("other", StagedShard(0, shards, runs)).num_rows == 0


def test_spreading_that_ends_anywhere_goes_on_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends it before and after every write and every removal in turn."""
    keys = [(place * 7919) % 97 * (ID_RANGE // 97) for place in range(80)]
    whole, runs, _ = written(tmp_path / "whole", keys, 10)
    whole.spread(runs)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    broken, _, _ = written(tmp_path / "broken", keys, 10)

    class Interrupted(Exception):
        """Stands for whatever ends a process."""

    steps, attempts = 0, 0

    def ending(do):
        def step(*arguments):
            nonlocal steps
            do(*arguments)
            steps -= 1
            if steps < 0:
                raise Interrupted

        return step

    for name in ("write_arrow", "write_json", "remove"):
        monkeypatch.setattr(staging.files, name, ending(getattr(staging.files, name)))
    while True:
        steps = attempts
        try:
            broken.spread(runs)
            break
        except Interrupted:
            attempts += 1
    assert attempts > 5
    assert {path.name: path.read_bytes() for path in (tmp_path / "broken").iterdir()} == expected
