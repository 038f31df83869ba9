"""The identity of source files."""

import os
from pathlib import Path

import pytest

from vitalfew.storage import files, sources
from vitalfew.storage.files import checksum
from vitalfew.storage.sources import file_digest


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_the_digest_is_that_of_the_content_and_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(sources, "SMALL", limit)
    path, store = tmp_path / "a.txt", tmp_path / "store"
    for content in ("one", "another"):
        path.write_text(content)
        assert file_digest(store, path) == file_digest(store, path) == checksum(path)
    assert store.exists() == (limit == 0)  # only what takes long to read is remembered


def test_a_large_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, store = tmp_path / "a.txt", tmp_path / "store"
    path.write_bytes(os.urandom(1 << 20))
    digest = file_digest(store, path)
    monkeypatch.setattr(files, "checksum", lambda _: pytest.fail("read again"))
    assert file_digest(store, path) == digest
