"""`kill -9` in the middle of a command, and the same command again: the bytes are those of one that nobody killed, and
the ledger has every answer once. On a disk and in a bucket."""

import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.golden.surface import results, tables, vitalfew
from tests.support.killing import BEFORE, Command, Commands, Environment
from tests.support.object_store import ObjectServer, s3_server
from tests.support.paid import PaidServer

pytestmark = pytest.mark.slow

KILLS = 3
"""Of a command, each as it goes on from the last one."""
GENERATED = "SELECT coalesce(sum(tokens), 0) AS n FROM costs WHERE stage = 'generate'"
"""Tokens of the model that answers."""


class World:
    """Commands, a server that is paid for its answers, and a server of a bucket."""

    def __init__(self, folder: Path, paid: PaidServer, bucket: ObjectServer) -> None:
        self.folder, self.paid, self.bucket = folder, paid, bucket
        self.commands = Commands(folder, paid)
        self.stores = 0
        self.whole = cache(self._whole)

    def begun(self, name: str, medium: str) -> tuple[str, Environment]:
        """A new store with all that comes before a command, nothing paid yet, and the environment that finds it."""
        self.stores += 1
        store, environment = str(self.folder / f"store-{self.stores}"), dict[str, str]()
        if medium == "bucket":
            store = f"s3://{self.bucket.bucket}/store-{self.stores}"
            environment = {**self.bucket.environment, "VITALFEW_CACHE": str(self.folder / f"cache-{self.stores}")}
        if name in BEFORE:
            self.commands.of(BEFORE[name], store, environment).seconds()
        self.paid.wait()
        self.paid.asked.clear()
        return store, environment

    def _whole(self, name: str) -> tuple[Path, float]:
        """A directory in which nobody killed this command, and the seconds that it took there."""
        store, _ = self.begun(name, "disk")
        return Path(store), self.commands.of(name, store).seconds()

    def killed(self, name: str, medium: str) -> Path:
        """A directory in which this command was killed `KILLS` times, and went on to its end."""
        _, takes = self.whole(name)
        moments = random.Random(name)
        store, environment = self.begun(name, medium)
        kills = 0
        while kills < KILLS:
            command = self.commands.of(name, store, environment)
            if command.is_killed(moments.uniform(0.1, 0.4) * takes):
                kills += 1
            else:  # it ended first: it takes less than it did
                takes, kills = 0.7 * takes, 0
                store, environment = self.begun(name, medium)
        command.seconds()
        if medium == "disk":
            return Path(store)
        copy = self.folder / f"copy-{self.stores}"
        Command(["store", "copy", store, str(copy)], self.folder, environment).seconds()
        return copy


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with PaidServer() as paid, s3_server() as bucket:
        yield World(tmp_path_factory.mktemp("kills"), paid, bucket)


@pytest.mark.parametrize("medium", ["disk", "bucket"])
@pytest.mark.parametrize("name", ["index", "evaluate", "train"])
def test_kills(golden: Callable[[str, str], None], world: World, name: str, medium: str) -> None:
    expected = results(world.whole(name)[0])
    store = world.killed(name, medium)
    found = results(store)
    ledger = int(vitalfew("sql", GENERATED, "--format", "csv", store=store).split()[-1])
    vitalfew("store", "gc", "--delete", store=store)  # a kill may leave a file that was not finished
    verified = vitalfew("store", "verify", store=store)
    lines = [
        f"{name}, killed {KILLS} times",
        tables(found),
        f"the same bytes: {found == expected}",
        f"the ledger has every answer once: {ledger == (world.paid.tokens_due() if name == 'evaluate' else 0)}",
        f"verified: {'No fault' in verified}",
    ]
    golden(f"kills-{name}.txt", "\n".join(lines))
