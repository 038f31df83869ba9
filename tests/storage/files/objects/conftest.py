"""The store of these tests is in a bucket."""

from pathlib import Path

import pytest


@pytest.fixture
def store(bucket: Path) -> Path:
    return bucket
