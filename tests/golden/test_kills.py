"""`kill -9` in the middle of a command, and the same command again: the bytes are those of one that nobody killed, and
the ledger has every answer once. On a disk; `tests/test_kills.py` kills the same commands in a bucket that fails."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.golden.surface import results, tables, vitalfew
from tests.support.killing import BEFORE, Commands
from tests.support.paid import PaidServer

pytestmark = pytest.mark.slow

KILLS = 2
"""Of a command, each as it goes on from the last one."""
GENERATED = "SELECT coalesce(sum(tokens), 0) AS n FROM costs WHERE stage = 'generate'"
"""Tokens of the model that answers."""


class World:
    """Commands, and a server that is paid for its answers."""

    def __init__(self, folder: Path, paid: PaidServer) -> None:
        self.folder, self.paid = folder, paid
        self.commands = Commands(folder, paid)
        self.stores = 0

    def begun(self, name: str) -> Path:
        """A new store with all that comes before a command, and nothing paid yet."""
        self.stores += 1
        store = self.folder / f"store-{self.stores}"
        if name in BEFORE:
            self.commands.of(BEFORE[name], store).seconds()
        self.paid.wait()
        self.paid.asked.clear()
        return store

    def whole(self, name: str) -> tuple[Path, float]:
        """A store in which nobody killed this command, and the seconds that it took there."""
        store = self.begun(name)
        return store, self.commands.of(name, store).seconds()

    def killed(self, name: str, takes: float) -> Path:
        """A store in which this command was killed `KILLS` times, and went on to its end."""
        moments = random.Random(name)
        store, kills = self.begun(name), 0
        while kills < KILLS:
            if self.commands.of(name, store).is_killed(moments.uniform(0.1, 0.4) * takes):
                kills += 1
            else:  # it ended first: it takes less than it did
                takes, kills = 0.7 * takes, 0
                store = self.begun(name)
        self.commands.of(name, store).seconds()
        return store


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with PaidServer() as paid:
        yield World(tmp_path_factory.mktemp("kills"), paid)


@pytest.mark.parametrize("name", ["index", "evaluate", "train"])
def test_kills(golden: Callable[[str, str], None], world: World, name: str) -> None:
    undisturbed, takes = world.whole(name)
    expected = results(undisturbed)
    store = world.killed(name, takes)
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
