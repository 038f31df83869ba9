"""The identity of source files."""

import os
from pathlib import Path

import pytest

from tests.support.damage import flip
from vitalfew.storage.files import checksum
from vitalfew.storage.ids import SMALL, file_digest, file_key


@pytest.mark.usefixtures("cache")
def test_an_edit_in_place_that_keeps_size_and_date_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(os.urandom(SMALL))
    before, key = file_digest(path), file_key(path)
    flip(path)
    assert file_digest(path) == checksum(path) != before
    assert file_key(path) != key
