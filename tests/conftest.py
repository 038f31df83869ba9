"""What all tests share: a cache directory of their own, which the processes they start inherit, with the models of the
user's in it, which take long to make."""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pytest

from tests.support.shared import FOLDER
from vitalfew.storage.files import user_cache


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:  # workers use that of the process that started them
        users = user_cache()
        os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="vitalfew-tests-cache-")
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="vitalfew-tests-shared-")
        for folder in (os.environ["XDG_CACHE_HOME"], os.environ[FOLDER]):
            config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
        if users and (users / "models").is_dir():
            own = Path(os.environ["XDG_CACHE_HOME"], "vitalfew")
            own.mkdir()
            (own / "models").symlink_to(users / "models")
    os.fsync = _not_waited_for


def _not_waited_for(descriptor: int) -> None:
    """In a test's process `fsync` returns at once: what it waits for outlives a loss of power, which no test is about.
    What a killed process wrote, the system keeps without it. Processes that tests start do wait."""
