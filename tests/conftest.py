"""What all tests share: a cache directory of their own, which the processes they start inherit."""

import os
import shutil
import tempfile

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:  # workers use that of the process that started them
        os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="vitalfew-tests-cache-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True))
