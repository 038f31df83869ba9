"""What a store in a directory promises: a file is whole or absent, a refusal names its remedy, and a symbolic link is
never followed when something is removed."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vitalfew.storage import files
from vitalfew.storage.files import DamagedRecord, NotWritten
from vitalfew.storage.files.processes import is_leftover

KILLED = """
import os, signal, sys
from pathlib import Path
from vitalfew.storage import files
files.write_atomically(
    Path(sys.argv[1]), lambda temporary: (temporary.write_text("half"), os.kill(os.getpid(), signal.SIGKILL))
)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_killed_writer_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "file"
    files.write_text(target, "before")
    killed = [sys.executable, "-c", KILLED, str(target)]
    assert subprocess.run(killed).returncode == -signal.SIGKILL
    assert files.read_text(target) == "before"
    (leftover,) = (path for path in tmp_path.iterdir() if path != target)
    assert is_leftover(leftover)
    assert {path: status.size for path, status in files.walk(tmp_path)}[leftover] == 4


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), r"No space left on device.*There are [\d,.]+ MiB left"),
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), "check its permissions"),
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


def test_a_record_sees_every_byte_that_is_changed(tmp_path: Path) -> None:
    path, value = tmp_path / "record.json", {"name": "é", "parts": [{"rows": 1}, None]}
    files.write_json(path, value)
    content = path.read_bytes()
    assert files.read_json(path) == value
    assert json.loads(content)["parts"] == value["parts"]  # JSON for whoever reads it
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(DamagedRecord, match=r"record\.json is damaged"):
            files.read_json(path)


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
