"""A bucket does what a directory does: the same operations, one after the other, have the same answers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.faulty import FaultyProxy
from vitalfew.storage import files
from vitalfew.storage.files import BucketError, Damaged, DamagedRecord
from vitalfew.storage.files.objects import bucket, client

TABLE = pa.table({"id": [1, 2, 3], "text": ["ä", "b", ""]})
ARTIFACT = Path("passages") / "0123456789abcdef"
SHARD, JOURNAL = ARTIFACT / "00000.parquet", ARTIFACT / "journal" / "00000.jsonl"
ARRAY = ARTIFACT / "probes.npy"
MANIFEST, TEXT, STAGED = ARTIFACT / "manifest.json", Path("corpora", "ä b.txt"), ARTIFACT / "staging" / "run.arrow"
OPERATIONS: list[tuple[str, Callable[[Path], Any]]] = [
    ("nothing", lambda at: (files.exists(at / "x.json"), files.find(at), files.folders(at), files.tree_bytes(at))),
    ("a record", lambda at: (files.write_json(at / MANIFEST, {"a": [1, "ä"]}), files.read_json(at / MANIFEST))),
    ("its size", lambda at: files.status(at / MANIFEST).size),
    ("it is found", lambda at: files.find(at, "*/*/manifest.json")),
    ("what is there", lambda at: (files.exists(at / MANIFEST), files.exists(at / ARTIFACT), files.is_folder(at))),
    ("a table", lambda at: (files.write_table(at / SHARD, TABLE), files.read_table(at / SHARD).to_pylist())),
    ("a column", lambda at: files.read_table(at / SHARD, ["text"]).to_pylist()),
    ("its row groups", lambda at: files.OpenTable(at / SHARD).read_row_group(0).num_rows),
    ("its schema", lambda at: files.read_schema(at / SHARD).names),
    ("its checksum", lambda at: files.checksum(at / SHARD)),
    ("its checksum now", lambda at: files.checksum_now(at / SHARD)),
    ("its copy", lambda at: files.local(at / SHARD).name),
    ("it is whole", lambda at: files.checked(at / SHARD, files.checksum(at / SHARD)).read_bytes()),
    ("it is not", lambda at: files.checked(at / SHARD, "0" * 32)),
    ("an array", lambda at: files.write_array(at / ARRAY, np.arange(6, dtype="float32").reshape(2, 3))),
    ("mapped", lambda at: (files.map_array(at / ARRAY).tolist(), files.read_array(at / ARRAY).tolist())),
    ("rows", lambda at: files.write_rows(at / ARTIFACT / "rows.npy", (2, 3), [np.ones((2, 3), "float32")])),
    ("arrays", lambda at: files.write_arrays(at / ARTIFACT / "several.npz", {"a": np.arange(3)})),
    ("arrays read", lambda at: files.read_arrays(at / ARTIFACT / "several.npz")["a"].tolist()),
    ("an arrow file", lambda at: (files.write_arrow(at / STAGED, TABLE), files.read_arrow(at / STAGED).to_pylist())),
    ("text", lambda at: (files.write_text(at / TEXT, "ä\n"), files.read_text(at / TEXT), files.read_bytes(at / TEXT))),
    ("overwritten", lambda at: (files.write_text(at / TEXT, "b"), files.read_text(at / TEXT))),
    ("what is no JSON", lambda at: (files.write_text(at / "bad.json", "{"), files.read_json(at / "bad.json"))),
    ("what is no table", lambda at: (files.write_text(at / "bad.parquet", "{"), files.read_table(at / "bad.parquet"))),
    ("entries", lambda at: files.find(at / ARTIFACT)),
    ("some of them", lambda at: files.find(at / ARTIFACT, "*.npy")),
    ("deeper ones", lambda at: files.find(at, "*/*/*.parquet")),
    ("folders", lambda at: (files.folders(at), files.folders(at / ARTIFACT), files.folders(at / "none"))),
    ("lines", lambda at: [files.append_lines(at / JOURNAL, [{"n": n}]) for n in range(3)]),
    ("lines read", lambda at: (files.read_lines(at / JOURNAL), files.read_lines(at / JOURNAL.with_name("1.jsonl")))),
    ("journals", lambda at: files.find(at / ARTIFACT / "journal", "*.jsonl")),
    ("lines removed", lambda at: (files.remove_tree(at / JOURNAL), files.read_lines(at / JOURNAL))),
    ("a folder's copy", lambda at: sorted(path.name for path in files.local(at / ARTIFACT).rglob("*.*"))),
    ("bytes of all but records", lambda at: files.tree_bytes(at / ARTIFACT / "staging")),
    ("what is not there", lambda at: files.read_bytes(at / "none.json")),
    ("nor its status", lambda at: files.status(at / "none.json")),
    ("nor its copy", lambda at: files.map_array(at / "none.npy")),
    ("nor its table", lambda at: files.read_table(at / "none.parquet")),
    ("a name inside", lambda at: files.is_inside(at, at / ARTIFACT)),
    ("writable", files.is_writable),
    ("a lock", lambda at: locked(at / ARTIFACT / "lock")),
    ("removed", lambda at: [files.remove(at / "bad.json") for _ in range(2)]),
    ("it is gone", lambda at: files.exists(at / "bad.json")),
    ("a tree removed", lambda at: [files.remove_tree(at / ARTIFACT) for _ in range(2)]),
    ("all of it", lambda at: (files.find(at, "*/*/manifest.json"), files.exists(at / ARTIFACT))),
]


def locked(path: Path) -> list[bool]:
    with files.locked(path) as first, files.locked(path, wait=False) as second:
        files.confirm_lock(path)
        answers = [first, second, files.is_locked(path)]
    with files.locked(path, wait=False) as again:
        return [*answers, again]


def answer(operation: Callable[[Path], Any], store: Path) -> Any:
    """With places as they are below the store, and errors by their kind."""
    try:
        return repr(operation(store)).replace(str(store), "").replace("BucketPath", "PosixPath")
    except (FileNotFoundError, Damaged, ValueError) as error:
        return type(error)


def test_the_same_operations_have_the_same_answers(store: Path, tmp_path: Path) -> None:
    on_disk = {name: answer(operation, tmp_path / "store") for name, operation in OPERATIONS}
    in_bucket = {name: answer(operation, store) for name, operation in OPERATIONS}
    for name, expected in on_disk.items():
        assert in_bucket[name] == expected, name
    assert on_disk["what is no JSON"] is DamagedRecord
    assert on_disk["it is not"] is Damaged
    assert on_disk["a lock"] == "[True, False, True, True]"


def test_what_is_written_once_stays(store: Path, proxy: FaultyProxy) -> None:
    marker = store / ARTIFACT / "done" / "00000.json"
    assert files.write_json_once(marker, {"by": "first"})
    assert not files.write_json_once(marker, {"by": "second"})
    assert files.read_json(marker) == {"by": "first"}
    with proxy.cut(kinds=("PUT",), within="00001.json", times=1):  # the answer is lost, not the marker
        assert files.write_json_once(marker.with_name("00001.json"), {"by": "first"})
    with proxy.fail(409, kinds=("PUT",), within="00002.json", times=2):  # two at once, and neither is taken
        assert files.write_json_once(marker.with_name("00002.json"), {"by": "first"})


def test_a_large_object_goes_up_in_parts(store: Path, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "_LARGE", 20 << 20)
    rows = np.random.default_rng(0).random((6 << 20, 1), dtype="float32")
    proxy.fail(500, kinds=("PUT", "POST"), every=3)
    files.write_array(store / "large.npy", rows)
    proxy.clear()
    assert proxy.count["POST"] >= 2
    files.local(store / "large.npy").unlink()
    assert np.array_equal(files.read_array(store / "large.npy"), rows)


def test_appended_lines_of_many_at_once(store: Path, proxy: FaultyProxy) -> None:
    path = store / ARTIFACT / "journal" / "00000.jsonl"
    proxy.cut(every=5, kinds=("PUT",))
    with ThreadPoolExecutor(8) as pool:
        [*pool.map(lambda number: files.append_lines(path, [number]), range(40))]
    proxy.clear()
    assert sorted(files.read_lines(path).values) == [*range(40)]


def test_what_was_appended_before_a_kill_is_found(
    store: Path, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the writes of many threads every second one never arrives, as if the process had been killed meanwhile."""
    monkeypatch.setattr(client, "_PATIENCE", {**client._PATIENCE, "max_retries": 0})
    path, returned = store / ARTIFACT / "journal" / "00000.jsonl", list[int]()

    def append(number: int) -> None:
        with suppress(BucketError):
            files.append_lines(path, [number])
            returned.append(number)

    with proxy.fail(500, kinds=("PUT",), every=2), ThreadPoolExecutor(16) as pool:
        [*pool.map(append, range(64))]
    assert 0 < len(returned) < 64
    assert {*returned} == {*files.read_lines(path).values}
