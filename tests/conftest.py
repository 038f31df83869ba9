"""Setup that all tests share: a cache directory that the processes they start inherit, with links to the models in the
user's cache and to converted networks, which take long to make; and a last word on what did not run."""

import os
import pkgutil
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import settings

from tests.support.shared import FOLDER
from vitalfew.storage.files import user_cache

settings.register_profile("any machine", deadline=None)  # by default an example must not take 200 ms
settings.load_profile("any machine")


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
            (own / "openvino").mkdir()
            for network in (users / "openvino").glob("*"):
                (own / "openvino" / network.name).symlink_to(network)
    os.environ.setdefault("VITALFEW_THREADS", "1")  # the workers of xdist fill the cores
    os.fsync = _not_waited_for


def _not_waited_for(descriptor: int) -> None:
    """In a test's process `fsync` returns at once: what it waits for outlives a loss of power, which no test is about.
    What a killed process wrote, the system keeps without it. Processes that tests start do wait."""


PLOTS = "vitalfew.tasks.reports.plots.list.PLOTS"


@pytest.fixture(scope="session", autouse=True)
def no_plots() -> Iterator[Any]:
    """Reports of this process have no plots, which are most of the work of a page. Gives those that there would be."""
    every = pkgutil.resolve_name(PLOTS)
    with mock.patch(PLOTS, ()):
        yield every


@pytest.fixture
def plots(no_plots: Any) -> Iterator[None]:
    """With this one, a test's reports have all their plots."""
    with mock.patch(PLOTS, no_plots):
        yield


LONGEST = (
    *("test_guides.py", "test_ui.py", "test_ray_pool.py", "test_killed_nights.py", "test_replicas.py"),
    *("test_guides_served.py", "test_browser.py", "test_approvals.py", "test_kills.py", "test_quickstart.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take minutes: a process runs a whole file, and the last one would run alone."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


# What did not run, and why

MARKERS = ("slow", "llm", "vllm", "integrations")
left_out: Counter[str] = Counter()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count what the selection by markers leaves out; a worker of xdist reports its counts to the controller."""
    left_out.update(next(filter(item.get_closest_marker, MARKERS), "") for item in items)
    if hasattr(items[0].config, "workeroutput"):
        items[0].config.workeroutput["left_out"] = dict(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    reported = getattr(node, "workeroutput", {}).get("left_out", {})
    left_out.update(Counter(reported) - left_out)  # every worker collects all tests and reports the same


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a line for every reason why tests were skipped, and for every marker that was not selected."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", ())
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {count}: {' '.join(reason.split())}")
    for marker in filter(left_out.get, MARKERS):
        terminalreporter.write_line(f"not selected {left_out[marker]}: marked {marker}, run by make test-{marker}")
