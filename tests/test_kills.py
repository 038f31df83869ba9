"""`kill -9` at random moments in a bucket whose server fails, cuts and delays requests: nothing is lost, nothing is
paid twice, and nothing differs from a store on a disk that nobody disturbed.

Every command is killed once; the index has a gate. `tests/golden/test_kills.py` kills the same commands on a disk.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.golden.surface import results, vitalfew
from tests.support.faulty import FaultyProxy, faulty
from tests.support.indexing import objects_contents, sql
from tests.support.killing import BEFORE, Commands
from tests.support.object_store import everything_in, s3_server
from tests.support.paid import PaidServer
from vitalfew.configs.paths import BucketPath
from vitalfew.flows.cli.main import app
from vitalfew.storage import generations
from vitalfew.storage.artifacts import complete_artifacts
from vitalfew.storage.files.objects import client
from vitalfew.storage.runs import find_index, read_runs

pytestmark = pytest.mark.slow

RECORDS = ("manifest.json", "stage.json", "lock", "done")
"""What lies in an artifact's folder besides the files that its manifest names."""
OTHERS = ("costs", "decisions", "generations", "indexes", "quotes", "runs", "reports", "sources")


Undisturbed = Callable[[str], tuple[Commands, Path, float]]
"""Gives, by a command: the commands, a store in which nobody killed it, and the seconds that it took there."""


class Prefixes:
    """Stores in a bucket behind a proxy, and copies of objects in a cache."""

    def __init__(self, proxy: FaultyProxy, cache: Path) -> None:
        self.server = proxy.server
        self.environment = {**proxy.environment, "VITALFEW_CACHE": str(cache)}

    def copied(self, store: Path | None, name: str) -> Path:
        copy = BucketPath("s3:", self.server.bucket, name)
        if store:
            done = CliRunner().invoke(app, ["store", "copy", str(store), str(copy)])
            assert done.exit_code == 0, done.output
        return copy

    def results(self, store: Path) -> dict[str, str]:
        found = objects_contents(store).items()
        return {name: value for name, value in found if "training_steps" not in name or name.endswith(".safetensors")}

    def left_over(self, store: Path) -> list[str]:
        """Objects in artifacts' folders that neither a manifest names nor are records."""
        referred = {file.path for _, manifest in complete_artifacts(store) for file in manifest.files()}
        within = f"{client.key(store)}/"
        keys = [entry.key for entry in everything_in(self.server) if entry.key.startswith(within)]
        names = {key.removeprefix(within) for key in keys} - referred
        parts = {name: name.split("/") for name in names}
        inside = {name: own for name, own in parts.items() if len(own) > 1 and own[0] not in OTHERS}
        return [name for name, own in inside.items() if own[2] not in RECORDS]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with PaidServer() as server:
        commands = Commands(folder, server)

        @cache
        def whole(name: str) -> tuple[Path, float]:
            store = folder / name
            if name in BEFORE:
                shutil.copytree(whole(BEFORE[name])[0], store)
            return store, commands.of(name, store).seconds()

        yield lambda name: (commands, *whole(name))


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prefixes]:
    """This process goes to the bucket's server itself, the commands through the proxy."""
    with s3_server() as running, faulty(running) as proxy:
        for name, value in {**running.environment, "VITALFEW_CACHE": str(tmp_path / "cache")}.items():
            monkeypatch.setenv(name, value)
        client._client.cache_clear()
        proxy.fail(503, every=101)
        proxy.cut(every=83, kinds=("PUT",))
        proxy.cut_bodies(every=97)
        proxy.slow(0.1, every=89)
        yield Prefixes(proxy, tmp_path / "cache")


@pytest.mark.parametrize("name", ["gate", "evaluate", "train"])
def test_a_kill_at_a_random_moment(stores: Prefixes, name: str, undisturbed: Undisturbed) -> None:
    """The command is killed once, and goes on; where it ends first, it begins anew and is killed sooner."""
    commands, expected, takes = undisturbed(name)
    whole = results(expected)
    before = undisturbed(BEFORE[name])[1] if name in BEFORE else None
    moments = random.Random(name)
    for attempt in count():
        store = stores.copied(before, str(attempt))
        command = commands.of(name, store, stores.environment)
        commands.server.wait()
        commands.server.asked.clear()
        if command.is_killed(moments.uniform(0.1, 0.9) * takes):
            break
        takes *= 0.7
    assert stores.results(store).items() <= whole.items()
    assert name != "gate" or _is_served(store)
    command.seconds()
    assert stores.results(store) == whole
    _is_accounted_for(store, commands.server)
    for words in (["store", "gc", "--delete"], ["store", "verify"]):
        said = vitalfew(*words, store=store)
    assert "No fault" in said
    assert stores.left_over(store) == []
    assert stores.results(store) == whole


def _is_served(store: Path) -> bool:
    """Whether a search finds the generation that was there first, or one that the gate has promoted."""
    now = find_index(store, "test")
    return now.generation == 1 or generations.find(store, "test", now.generation).verdict == "promoted"


def _is_accounted_for(store: Path, server: PaidServer) -> None:
    states = Counter(run.state for run in read_runs(store))
    assert set(states) <= {"completed", "interrupted"}
    assert read_runs(store)[-1].state == "completed"
    assert sql(store, "SELECT stage, shard FROM costs GROUP BY stage, shard, fingerprint HAVING count(*) > 1") == []
    ((paid,),) = sql(store, "SELECT coalesce(sum(tokens), 0) FROM costs WHERE stage = 'generate'")
    server.wait()
    assert paid == server.tokens_due()
