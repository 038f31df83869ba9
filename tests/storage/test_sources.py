"""The identity of source files."""

import os
from pathlib import Path

import pytest

from tests.support.damage import flip
from vitalfew.storage import ids
from vitalfew.storage.files import checksum, checksums
from vitalfew.storage.ids import SMALL, SourceChanged, file_digest, file_key


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache directory. Files are taken for settled, however new they are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(checksums, "SETTLED_NS", -1)
    return tmp_path / "cache"


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_the_digest_is_that_of_the_content_and_follows_it(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(ids, "SMALL", limit)
    path = tmp_path / "a.txt"
    for content in ("one", "another"):
        path.write_text(content)
        assert file_digest(path) == file_digest(path) == checksum(path)
    assert cache.exists() == (limit == 0)  # only what takes long to read is remembered


@pytest.mark.usefixtures("cache")
def test_a_large_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(os.urandom(SMALL))
    digest = file_digest(path)
    monkeypatch.setattr(checksums._Memory, "read", lambda *_: pytest.fail("read again"))
    assert file_digest(path) == digest


@pytest.mark.usefixtures("cache")
def test_an_edit_in_place_that_keeps_size_and_date_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(os.urandom(SMALL))
    before, key = file_digest(path), file_key(path)
    flip(path)
    assert file_digest(path) == checksum(path) != before
    assert file_key(path) != key


def test_of_two_writes_at_once_the_second_is_seen(tmp_path: Path) -> None:
    """A clock that ticks every few milliseconds gives both one date."""
    path = tmp_path / "a.txt"
    path.write_bytes(os.urandom(SMALL))
    for _ in range(20):
        before = file_digest(path)
        flip(path)
        assert file_digest(path) != before


def test_what_one_machine_remembers_no_other_believes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inodes are of a machine: on another, the file with the same numbers is a different one."""
    path = tmp_path / "a.txt"
    path.write_bytes(os.urandom(SMALL))
    file_digest(path)
    (log,) = cache.rglob("*.jsonl")
    log.write_text(log.read_text().replace(checksum(path), "0" * 32))
    checksums._memory.cache_clear()
    assert file_digest(path) == "0" * 32
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine's"))
    assert file_digest(path) == checksum(path)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(SourceChanged, match="removed"):
        file_digest(tmp_path / "none")
