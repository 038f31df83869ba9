"""Commands on a store in a bucket whose server fails, cuts and delays requests, and `kill -9` at random moments:
nothing is lost, and nothing differs from a store on a disk."""

from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from tests.support.faulty import FaultyProxy, faulty
from tests.support.indexing import objects_contents
from tests.support.killing import BEFORE, Commands, is_clean, kill_at_random_moments, seconds
from tests.support.object_store import everything_in, s3_server
from tests.support.paid import PaidServer
from tests.test_faults import Directories
from vitalfew.configs.paths import BucketPath
from vitalfew.storage.artifacts import complete_artifacts
from vitalfew.storage.files.objects import client

pytestmark = pytest.mark.slow

RECORDS = ("manifest.json", "stage.json", "lock", "done")
"""What lies in an artifact's folder besides the files that its manifest names."""
OTHERS = ("costs", "generations", "indexes", "quotes", "runs", "reports", "sources")


class Prefixes:
    """Stores in a bucket behind a proxy, and copies of objects in a cache."""

    def __init__(self, proxy: FaultyProxy, cache: Path) -> None:
        self.server = proxy.server
        self.environment = {**proxy.environment, "VITALFEW_CACHE": str(cache)}

    def place(self, name: str) -> Path:
        return BucketPath("s3:", self.server.bucket, name)

    def copied(self, store: Path | None, name: str) -> Path:
        copy = self.place(name)
        for path in self.names(store) if store else ():
            obstore.copy(client.client(store), client.key(store / path), client.key(copy / path))
        return copy

    def names(self, store: Path) -> list[str]:
        """Of all objects of a store."""
        within = f"{client.key(store)}/"
        return [entry.key.removeprefix(within) for entry in everything_in(self.server) if entry.key.startswith(within)]

    def results(self, store: Path) -> dict[str, str]:
        found = objects_contents(store).items()
        return {name: value for name, value in found if "training_steps" not in name or name.endswith(".safetensors")}

    def unreferred(self, store: Path) -> list[str]:
        """Objects in artifacts' folders that neither a manifest names nor are records."""
        referred = {file.path for _, manifest in complete_artifacts(store) for file in manifest.files()}
        parts = {name: name.split("/") for name in self.names(store) if name not in referred}
        inside = {name: own for name, own in parts.items() if len(own) > 1 and own[0] not in OTHERS}
        return [name for name, own in inside.items() if own[2] not in RECORDS]


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prefixes]:
    """This process goes to the server itself, the commands through the proxy."""
    with s3_server() as running, faulty(running) as proxy:
        for name, value in {**running.environment, "VITALFEW_CACHE": str(tmp_path / "cache")}.items():
            monkeypatch.setenv(name, value)
        client._client.cache_clear()
        client._hurried.cache_clear()
        proxy.fail(503, every=101)
        proxy.cut(every=83, kinds=("PUT",))
        proxy.cut_bodies(every=97)
        proxy.slow(0.1, every=89)
        yield Prefixes(proxy, tmp_path / "cache")


@pytest.mark.parametrize("name", ["index", "gate", "evaluate", "train"])
def test_kills_at_random_moments(tmp_path: Path, stores: Prefixes, name: str) -> None:
    with PaidServer() as server:
        commands, undisturbed = Commands(tmp_path, server), tmp_path / "undisturbed"
        for each in (*filter(None, [BEFORE.get(name)]), name):
            seconds(commands.of(each, undisturbed))
        whole = Directories(tmp_path).results(undisturbed)
        store = kill_at_random_moments(name, commands, stores, whole)
        is_clean(store)
    assert stores.unreferred(store) == []
    assert stores.results(store) == whole
