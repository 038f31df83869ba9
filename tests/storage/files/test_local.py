"""What a store in a directory promises: a file is whole or absent, a refusal names its remedy, a lock dies with its
holder, and a symbolic link is never followed when something is removed."""

import errno
import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from vitalfew.storage import files
from vitalfew.storage.files import DamagedRecord, NotWritten
from vitalfew.storage.files.processes import is_leftover
from vitalfew.storage.files.tables import ROW_GROUP

PYTHON = [sys.executable, "-c"]
LONG_AGO = 1_000_000_000


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Writing


def test_a_killed_writer_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "file"
    files.write_text(target, "before")
    script = f"""
import os, signal
from pathlib import Path
from vitalfew.storage import files
def write(temporary):
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
files.write_atomically(Path({str(target)!r}), write)
"""
    assert subprocess.run([*PYTHON, script]).returncode == -signal.SIGKILL
    assert files.read_text(target) == "before"
    (leftover,) = (path for path in tmp_path.iterdir() if path != target)
    assert is_leftover(leftover)
    assert [*files.left_behind(tmp_path, timedelta(days=7))] == [(leftover, 4)]
    files.remove_leftovers(tmp_path)
    assert names(tmp_path) == ["file"]


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def write(temporary: Path) -> None:
        temporary.write_text("half")
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        files.write_atomically(tmp_path / "new" / "file", write)
    assert names(tmp_path / "new") == []


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
            r"No space left on device.*There are [\d,.]+ MiB left",
        ),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "make room"),
        (OSError(errno.EFBIG, os.strerror(errno.EFBIG)), "ulimit -f"),
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), "check its permissions"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "another --store DIR"),
        # as FAISS and DuckDB say it
        (RuntimeError(f"Error in write_index: {os.strerror(errno.ENOSPC)}"), "make room"),
    ],
)
def test_a_refusal_names_the_file_the_cause_and_the_remedy(tmp_path: Path, refusal: Exception, remedy: str) -> None:
    def write(temporary: Path) -> None:
        temporary.write_text("half")
        raise refusal

    with pytest.raises(NotWritten, match=rf"{tmp_path}/a/file cannot be written: .*{remedy}"):
        files.write_atomically(tmp_path / "a" / "file", write)
    assert names(tmp_path / "a") == []


def test_a_folder_that_cannot_be_made_is_named_too(tmp_path: Path) -> None:
    files.write_text(tmp_path / "file", "a file, and no folder")
    with pytest.raises(OSError, match="file"):
        files.write_text(tmp_path / "file" / "below", "")


def test_temporary_files_of_others(tmp_path: Path) -> None:
    """That of a process that works is left alone; of a process out of sight nothing is known but by the file's age."""
    own = tmp_path / f".x.{files.this_process()}.tmp"
    new, old = (tmp_path / f".{age}.0123456789ab-4194304-1.tmp" for age in ("new", "old"))
    for path in (own, new, old):
        path.write_text("")
    os.utime(old, (LONG_AGO, LONG_AGO))
    assert [path for path, _ in files.left_behind(tmp_path, timedelta(days=7))] == [old]
    files.remove_leftovers(tmp_path)
    assert len(names(tmp_path)) == 3


# What is written is read back


def test_tables(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(10_000)), "text": ["a", "b"] * 5_000})
    place = tmp_path / "table" / "00000.parquet"
    files.write_table(place, table)
    assert files.read_table(place).equals(table)
    assert files.read_table(place, ["text"], mapped=True).column_names == ["text"]
    assert files.read_tables([place, place], ["id"]).num_rows == 20_000
    assert files.read_schema(place).names == ["id", "text"]
    with files.open_table(place) as file:
        assert [file.metadata.row_group(n).num_rows for n in range(3)] == [ROW_GROUP, ROW_GROUP, 1808]
    files.write_arrow(tmp_path / "table.arrow", table)
    assert files.read_arrow(tmp_path / "table.arrow").equals(table)


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    table = pa.table({"text": ["some", "texts"]})
    for name in ("a", "b"):
        files.write_table(tmp_path / name, table)
    assert files.checksum(tmp_path / "a") == files.checksum(tmp_path / "b")


def test_arrays(tmp_path: Path) -> None:
    array = np.arange(5, dtype=np.float32)
    files.write_array(tmp_path / "one.npy", array)
    np.testing.assert_array_equal(files.read_array(tmp_path / "one.npy"), array)
    mapped = files.map_array(tmp_path / "one.npy")
    np.testing.assert_array_equal(mapped, array)
    assert not mapped.flags.owndata
    files.write_arrays(tmp_path / "two.npz", {"a": array, "b": array + 1})
    two = files.read_arrays(tmp_path / "two.npz")
    np.testing.assert_array_equal(two["b"], array + 1)
    with pytest.raises(ValueError, match="Object arrays"):
        files.write_array(tmp_path / "three.npy", np.array([{}]))
    assert "three.npy" not in names(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b'{"other": 1}'])
def test_a_damaged_record_is_named(tmp_path: Path, content: bytes) -> None:
    files.write_json(tmp_path / "record.json", {"number": 1})
    assert files.read_record(tmp_path / "record.json", lambda value: value["number"]) == 1
    files.write_bytes(tmp_path / "record.json", content)
    with pytest.raises(DamagedRecord, match=r"record\.json is damaged"):
        files.read_record(tmp_path / "record.json", lambda value: value["number"])


def test_a_record_sees_every_byte_that_is_changed(tmp_path: Path) -> None:
    path, value = tmp_path / "record.json", {"name": "é", "parts": [{"rows": 1}, None]}
    files.write_json(path, value)
    content = path.read_bytes()
    assert files.read_json(path) == value
    assert json.loads(content)["parts"] == value["parts"]  # JSON for whoever reads it
    for place in range(len(content)):
        for bit in range(8):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            with pytest.raises(DamagedRecord, match=r"record\.json is damaged"):
                files.read_json(path)


def test_a_record_of_an_earlier_version_has_no_seal(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(json.dumps({"rows": 1}, indent=1) + "\n")
    assert files.read_json(tmp_path / "record.json") == {"rows": 1}


# What is there


def test_what_is_missing(tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "where"
    assert not files.exists(nowhere)
    assert not files.is_folder(nowhere)
    assert files.find(nowhere) == files.folders(nowhere) == []
    assert files.tree_bytes(nowhere) == 0
    assert files.free_bytes(nowhere) == files.free_bytes(tmp_path) > 0
    files.remove(nowhere)
    files.remove_tree(nowhere)
    files.write_text(tmp_path / "file", "")
    for place in (nowhere, tmp_path / "file" / "below"):
        with pytest.raises(FileNotFoundError):
            files.status(place)


def test_lists_are_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b/2.json", "b/1.json", "a/3.json", "c.txt"):
        files.write_text(tmp_path / name, "text")
    assert files.folders(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert [path.name for path in files.find(tmp_path, "*/*.json")] == ["3.json", "1.json", "2.json"]
    assert files.tree_bytes(tmp_path) == 16


def test_a_file_that_changes_has_another_status(tmp_path: Path) -> None:
    files.write_text(tmp_path / "file", "text")
    before = files.status(tmp_path / "file")
    files.write_text(tmp_path / "file", "next")  # as many bytes, under the same name
    assert before.size == files.status(tmp_path / "file").size == 4
    assert before != files.status(tmp_path / "file")


def test_links_are_not_followed_to_remove_or_count(tmp_path: Path) -> None:
    store, other = tmp_path / "store", tmp_path / "other"
    files.write_text(other / "file", "precious")
    files.make_folder(store / "table")
    (store / "table" / "link").symlink_to(other)
    assert files.is_inside(store, store / "table")
    assert not files.is_inside(store, store / "table" / "link" / "file")
    assert files.tree_bytes(store) == 0
    (store / "linked").symlink_to(other)
    files.remove_tree(store / "linked")
    files.remove_tree(store / "table")
    assert names(store) == []
    assert files.read_text(other / "file") == "precious"


# Locks

HOLD = (
    "from pathlib import Path; from vitalfew.storage import files; import sys\nwith files.locked(Path(sys.argv[1])): "
)


def test_a_lock_is_let_go_of_by_who_dies(tmp_path: Path) -> None:
    lock = tmp_path / "table" / "lock"
    script = HOLD + "print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([*PYTHON, script, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        assert files.is_locked(lock)
        with files.locked(lock, wait=False) as held:
            assert not held
        holder.kill()
        holder.wait()
    assert not files.is_locked(lock)
    with files.locked(lock, wait=False) as held:
        assert held
        assert files.is_locked(lock)


def test_a_lock_that_is_not_waited_for_makes_no_folder(tmp_path: Path) -> None:
    with files.locked(tmp_path / "gone" / "lock", wait=False) as held:
        assert not held
    assert names(tmp_path) == []
    assert not files.is_locked(tmp_path / "gone" / "lock")


def test_a_lock_whose_file_its_holder_removed_is_taken_anew(tmp_path: Path) -> None:
    """Who waits for it would else hold a file that nobody sees."""
    lock = tmp_path / "lock"
    with files.locked(lock):
        waiter = subprocess.Popen([*PYTHON, HOLD + "print(files.exists(Path(sys.argv[1])))", str(lock)], stdout=-1)
        with pytest.raises(subprocess.TimeoutExpired):
            waiter.wait(2)
        files.remove(lock)
    out, _ = waiter.communicate(timeout=60)
    assert out == b"True\n"
