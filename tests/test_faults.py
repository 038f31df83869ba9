"""`kill -9` at random moments of indexing, judging, evaluating and training: nothing is lost, nothing differs."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.indexing import contents
from tests.support.killing import BEFORE, NOTHING, Commands, is_clean, kill_at_random_moments, seconds
from tests.support.paid import PaidServer
from vitalfew.storage.files import checksum

pytestmark = pytest.mark.slow


class Directories:
    environment = NOTHING

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def copied(self, store: Path | None, name: str) -> Path:
        if store:
            shutil.copytree(store, self.folder / name)
        return self.folder / name

    def results(self, store: Path) -> dict[str, str]:
        """A step of a training says how many seconds it took."""
        weights = {str(path.relative_to(store)): checksum(path) for path in store.glob("**/weights/*.safetensors")}
        return weights | {name: value for name, value in contents(store).items() if "training_steps" not in name}


@pytest.fixture
def server() -> Iterator[PaidServer]:
    with PaidServer() as server:
        yield server


@pytest.mark.parametrize("name", ["index", "gate", "evaluate", "train"])
def test_kills_at_random_moments(tmp_path: Path, server: PaidServer, name: str) -> None:
    commands, stores = Commands(tmp_path, server), Directories(tmp_path)
    undisturbed = tmp_path / "undisturbed"
    for each in (*filter(None, [BEFORE.get(name)]), name):
        seconds(commands.of(each, undisturbed))
    store = kill_at_random_moments(name, commands, stores, stores.results(undisturbed))
    is_clean(store)
    assert not list(store.glob("**/.*.tmp"))
