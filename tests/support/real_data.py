"""Where tests find the real data, and how they stand aside where it is not there."""

import os
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data"


def real_data(name: str) -> Path:
    """A file of the data folder ($VITALFEW_DATA, or ../shared/data); the test is skipped where it is missing."""
    folder = Path(os.environ.get("VITALFEW_DATA", _DEFAULT))
    path = folder / name
    if not path.is_file():
        pytest.skip(f"real data: {path} is not there (set VITALFEW_DATA to the folder that has {name})")
    return path
