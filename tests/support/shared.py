"""What several test files need and none changes: made once in a test run, for all of its processes."""

import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from typing import Any

from filelock import FileLock

from tests.support.indexing import index

FOLDER = "VITALFEW_TESTS_SHARED"
"""The environment variable with the folder of this test run; `tests/conftest.py` makes and removes it."""


def shared(name: str, make: Callable[[Path], object]) -> Path:
    """Return the directory `name`, which `make(directory)` fills the first time. Read it; write to a copy."""
    folder = Path(os.environ[FOLDER], name)
    finished = folder.with_name(f"{name}.finished")
    with FileLock(f"{folder}.lock"):
        if not finished.exists():
            rmtree(folder, ignore_errors=True)
            make(folder)
            finished.touch()
    return folder


def indexed(*datasets: str, **settings: Any) -> Path:
    """Return a store with the index `test` of these data sets, made as `tests.support.indexing.index` makes it.

    Read it. A test that writes takes a copy: `tests.support.evaluating.copied(indexed(…), tmp_path / "store")`.
    """
    key = blake2b(repr((datasets, sorted(settings.items()))).encode(), digest_size=8).hexdigest()
    return shared(f"index-{key}", lambda store: index(store, *datasets, **settings))
