"""What several tests of the flows begin with."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.evaluating import copied, searchable
from tests.support.fakes import ChatServer, Reply
from tests.support.ray_nodes import Nodes, three_nodes


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of its own with an index that every retriever can search."""
    return copied(searchable(), tmp_path / "store")


@pytest.fixture(scope="module")
def hook() -> Iterator[ChatServer]:
    """A webhook, which is any server that takes a POST of JSON."""
    with ChatServer(lambda path, body, attempt: Reply({})) as server:
        yield server


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A cluster of three nodes, each as good as a machine of its own."""
    folder = Path("/tmp") / f"nodes-{os.getpid()}"  # sockets of Unix have short names
    folder.mkdir()
    with three_nodes(folder) as nodes:
        yield nodes
    shutil.rmtree(folder)
