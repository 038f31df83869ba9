"""`kill -9` in the middle of a command, and the same command again: the bytes are those of one that nobody killed, and
the ledger has every answer once. On a disk and in a bucket."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.golden.surface import results, tables, vitalfew
from tests.support.killing import Command, Commands, is_killed, seconds
from tests.support.object_store import ObjectServer, s3_server
from tests.support.paid import PaidServer

pytestmark = pytest.mark.slow

KILLS = 3
"""Of a command, each as it goes on from the last one."""
BEFORE = {"evaluate": "index"}
"""What is done before a command, and not killed."""


@dataclass
class World:
    """Commands, a server that is paid for its answers, and a server of a bucket."""

    folder: Path
    paid: PaidServer
    bucket: ObjectServer
    commands: Commands
    stores: int = 0
    undisturbed: dict[str, tuple[Path, float]] = field(default_factory=dict)

    def place(self, medium: str) -> tuple[str, Mapping[str, str]]:
        """A new store, and the environment that finds it."""
        self.stores += 1
        if medium == "disk":
            return str(self.folder / f"store-{self.stores}"), {}
        environment = {**self.bucket.environment, "VITALFEW_CACHE": str(self.folder / f"cache-{self.stores}")}
        return f"s3://{self.bucket.bucket}/store-{self.stores}", environment

    def directory(self, store: str, environment: Mapping[str, str]) -> Path:
        """A store as a directory: a copy, if it is in a bucket."""
        if not environment:
            return Path(store)
        self.stores += 1
        copy = self.folder / f"copy-{self.stores}"
        seconds(Command(["store", "copy", store, str(copy)], self.folder), environment)
        return copy

    def command(self, name: str, store: str) -> Command:
        return self.commands.of(name, store)  # type: ignore[arg-type]

    def begun(self, name: str, medium: str) -> tuple[str, Mapping[str, str]]:
        """A store with all that comes before a command, and nothing paid yet."""
        store, environment = self.place(medium)
        if name in BEFORE:
            seconds(self.command(BEFORE[name], store), environment)
        self.paid.wait()
        self.paid.asked.clear()
        return store, environment

    def whole(self, name: str) -> tuple[Path, float]:
        """A directory in which nobody killed this command, and the seconds that it took there."""
        if name not in self.undisturbed:
            store, _ = self.begun(name, "disk")
            took = seconds(self.command(name, store))
            self.undisturbed[name] = Path(store), took
        return self.undisturbed[name]

    def killed(self, name: str, medium: str) -> Path:
        """A directory in which this command was killed, and went on to its end; and as long as there were fewer kills
        than `KILLS`, because it came to its end before, another one."""
        _, takes = self.whole(name)
        moments = random.Random(name)
        for _ in range(10):
            store, environment = self.begun(name, medium)
            command = self.command(name, store)
            if all(is_killed(command, moments.uniform(0.1, 0.4) * takes, environment) for _ in range(KILLS)):
                break
        else:
            raise AssertionError(f"{name} ends too soon to be killed {KILLS} times")
        seconds(command, environment)
        return self.directory(store, environment)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("kills")
    with PaidServer() as paid, s3_server() as bucket:
        yield World(folder, paid, bucket, Commands(folder, paid))


@pytest.mark.parametrize("medium", ["disk", "bucket"])
@pytest.mark.parametrize("name", ["index", "evaluate", "train"])
def test_kills(golden: Callable[[str, str], None], world: World, name: str, medium: str) -> None:
    expected = results(world.whole(name)[0])
    store = world.killed(name, medium)
    found = results(store)
    ledger = _ledger(store)
    verified = vitalfew("store", "verify", store=store)
    lines = [
        f"{name}, killed {KILLS} times",
        tables(found),
        f"the same bytes: {found == expected}",
        f"the ledger has every answer once: {ledger == (world.paid.tokens_due() if name == 'evaluate' else 0)}",
        f"verified: {'No fault' in verified}",
    ]
    golden(f"kills-{name}.txt", "\n".join(lines))


def _ledger(store: Path) -> Any:
    """Tokens of the model that answers."""
    printed = vitalfew(
        "sql",
        "SELECT coalesce(sum(tokens), 0) AS n FROM costs WHERE stage = 'generate'",
        "--format",
        "csv",
        store=store,
    )
    return int(printed.split()[-1])
