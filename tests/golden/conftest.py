"""The golden tests: what a user sees, through the public surface alone, against small files that a person can read.

`make golden` runs them. `make golden-update` writes the files anew and shows, as `git diff`, what changed.
"""

import os
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest

EXPECTED = Path(__file__).with_name("expected")
UPDATE = "VITALFEW_GOLDEN"
"""The environment variable that, set to `update`, writes the expected files instead of comparing with them."""


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with the committed file of that name, and fail with the difference."""
    return _compare


def _compare(name: str, text: str) -> None:
    path = EXPECTED / name
    text = text.rstrip("\n") + "\n"
    if os.environ.get(UPDATE) == "update":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return
    if not path.exists():
        pytest.fail(f"there is no {path}: make golden-update writes it")
    expected = path.read_text()
    if text != expected:
        lines = unified_diff(expected.splitlines(), text.splitlines(), f"expected/{name}", "now", lineterm="")
        pytest.fail("\n".join([*lines, "If this is meant: make golden-update, and say why."]), pytrace=False)
