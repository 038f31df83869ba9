"""A file that does not see damage by itself is read once per machine, and again whenever it may have changed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.damage import flip
from vitalfew.storage import files
from vitalfew.storage.files import Damaged
from vitalfew.storage.files import checksums as module

ROOT = Path(__file__).parents[3]
READ = """
import sys
from pathlib import Path
from vitalfew.storage import files
from vitalfew.storage.files import checksums
checksums.SETTLED_NS = -1
reads, known = [], checksums._Memory.read
checksums._Memory.read = lambda self, path, *_: reads.append(path) or known(self, path, *_)
[files.checked(Path(sys.argv[1]), sys.argv[2]) for _ in range(3)]
print(len(reads))
"""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read."""
    read: list[str] = []
    known = module._Memory.read
    monkeypatch.setattr(module._Memory, "read", lambda self, path, *_: read.append(path.name) or known(self, path, *_))
    return read


def written(path: Path, content: bytes = b"the bytes of an index") -> str:
    files.write_bytes(path, content)
    return files.checksum(path)


def in_another_process(path: Path, expected: str) -> int:
    """How often another process of this machine reads the file to check it."""
    command = [sys.executable, "-c", READ, str(path), expected]
    return int(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def test_a_file_is_read_once_per_machine(tmp_path: Path, cache: Path, reads: list[str]) -> None:
    expected = written(tmp_path / "index")
    for _ in range(3):
        assert files.checked(tmp_path / "index", expected) == tmp_path / "index"
    assert reads == ["index"]
    assert in_another_process(tmp_path / "index", expected) == 0
    assert [path.parent for path in cache.rglob("*.jsonl")] == [cache / "vitalfew" / "checked"]


@pytest.mark.usefixtures("cache")
def test_a_flipped_bit_is_seen_whatever_size_and_date_say(tmp_path: Path) -> None:
    expected = written(tmp_path / "index")
    files.checked(tmp_path / "index", expected)
    flip(tmp_path / "index")
    for _ in range(2):
        with pytest.raises(Damaged, match=r"index is damaged: .*differs from what was .* `vitalfew store verify`"):
            files.checked(tmp_path / "index", expected)
    flip(tmp_path / "index")
    assert files.checked(tmp_path / "index", expected)
