"""The identity of source files."""

import os
from pathlib import Path

import pytest

from tests.support.damage import flip
from vitalfew.storage.files import checksum, checksums
from vitalfew.storage.ids import SMALL, file_digest, file_key


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache directory. Files are taken for settled, however new they are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(checksums, "SETTLED_NS", -1)
    return tmp_path / "cache"


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
