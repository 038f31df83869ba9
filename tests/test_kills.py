"""`kill -9` at random moments, on a disk and in a bucket whose server fails, cuts and delays requests: nothing is lost,
nothing is paid twice, and nothing differs from a store on a disk that nobody disturbed.

Here an index with a gate is killed on a disk, and every command in the bucket. `tests/golden/test_kills.py` kills the
others on a disk, and all in a bucket whose server is well.
"""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from tests.golden.surface import results, vitalfew
from tests.support.faulty import FaultyProxy, faulty
from tests.support.indexing import objects_contents, sql
from tests.support.killing import BEFORE, Commands
from tests.support.object_store import everything_in, s3_server
from tests.support.paid import PaidServer
from vitalfew.configs.paths import BucketPath
from vitalfew.storage import generations
from vitalfew.storage.artifacts import complete_artifacts
from vitalfew.storage.files.objects import client
from vitalfew.storage.runs import find_index, read_runs

pytestmark = pytest.mark.slow

KILLS = {"index": 2, "gate": 1, "evaluate": 2, "train": 2}
RECORDS = ("manifest.json", "stage.json", "lock", "done")
"""What lies in an artifact's folder besides the files that its manifest names."""
OTHERS = ("costs", "decisions", "generations", "indexes", "quotes", "runs", "reports", "sources")


class Directories:
    """Stores on a disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {}

    def copied(self, store: Path | None, name: str) -> Path:
        """A copy of a store, or the place of a new one."""
        if store:
            shutil.copytree(store, self.folder / name)
        return self.folder / name

    def results(self, store: Path) -> dict[str, str]:
        """Checksums of all that is not a record of time."""
        return results(store)

    def left_over(self, store: Path) -> list[str]:
        return [str(path) for path in store.glob("**/.*.tmp")]


class Prefixes:
    """Stores in a bucket behind a proxy, and copies of objects in a cache."""

    def __init__(self, proxy: FaultyProxy, cache: Path) -> None:
        self.server = proxy.server
        self.environment = {**proxy.environment, "VITALFEW_CACHE": str(cache)}

    def copied(self, store: Path | None, name: str) -> Path:
        copy = BucketPath("s3:", self.server.bucket, name)
        for path in self._names(store) if store else ():
            obstore.copy(client.client(store), client.key(store / path), client.key(copy / path))
        return copy

    def _names(self, store: Path) -> list[str]:
        """Of all objects of a store."""
        within = f"{client.key(store)}/"
        return [entry.key.removeprefix(within) for entry in everything_in(self.server) if entry.key.startswith(within)]

    def results(self, store: Path) -> dict[str, str]:
        found = objects_contents(store).items()
        return {name: value for name, value in found if "training_steps" not in name or name.endswith(".safetensors")}

    def left_over(self, store: Path) -> list[str]:
        """Objects in artifacts' folders that neither a manifest names nor are records."""
        referred = {file.path for _, manifest in complete_artifacts(store) for file in manifest.files()}
        parts = {name: name.split("/") for name in self._names(store) if name not in referred}
        inside = {name: own for name, own in parts.items() if len(own) > 1 and own[0] not in OTHERS}
        return [name for name, own in inside.items() if own[2] not in RECORDS]


@pytest.fixture
def stores(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """In a bucket this process goes to the server itself, the commands through the proxy."""
    if request.param == "disk":
        yield Directories(tmp_path)
        return
    with s3_server() as running, faulty(running) as proxy:
        for name, value in {**running.environment, "VITALFEW_CACHE": str(tmp_path / "cache")}.items():
            monkeypatch.setenv(name, value)
        client._client.cache_clear()
        proxy.fail(503, every=101)
        proxy.cut(every=83, kinds=("PUT",))
        proxy.cut_bodies(every=97)
        proxy.slow(0.1, every=89)
        yield Prefixes(proxy, tmp_path / "cache")


@pytest.mark.parametrize(
    ("stores", "name"), [("disk", "gate"), *(("bucket", name) for name in KILLS)], indirect=["stores"]
)
def test_kills_at_random_moments(tmp_path: Path, stores: Directories | Prefixes, name: str) -> None:
    """A command is killed as it goes on from the last kill; where it comes to its end, it begins anew."""
    with PaidServer() as server:
        commands, undisturbed = Commands(tmp_path, server), tmp_path / "undisturbed"
        for each in (*filter(None, [BEFORE.get(name)]), name):
            commands.of(each, undisturbed).seconds()
        store = _killed(name, commands, stores, results(undisturbed))
        for words in (["store", "gc", "--delete"], ["store", "verify"]):
            said = vitalfew(*words, store=store)
        assert "No fault" in said
    assert stores.left_over(store) == []
    assert stores.results(store) == results(undisturbed)


def _killed(name: str, commands: Commands, stores: Directories | Prefixes, whole: dict[str, str]) -> Path:
    """Kill a command as often as KILLS says. Returns the last store."""
    environment, before = stores.environment, None
    if name in BEFORE:
        before = stores.copied(None, "before")
        commands.of(BEFORE[name], before, environment).seconds()
    takes = commands.of(name, stores.copied(before, "timed"), environment).seconds()
    moments = random.Random(name)
    kills = begun = 0
    while kills < KILLS[name]:
        store = stores.copied(before, str(begun))
        command = commands.of(name, store, environment)
        begun += 1
        commands.server.wait()
        commands.server.asked.clear()
        before_it = kills
        while kills < KILLS[name] and command.is_killed(moments.uniform(0, takes)):
            kills += 1
            assert stores.results(store).items() <= whole.items()
            assert name != "gate" or _is_served(store)
        if kills == before_it:  # it came to its end before its first moment: it takes less than it did
            takes *= 0.8
        command.seconds()
        assert stores.results(store) == whole
        _is_accounted_for(store, commands.server)
    return store


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
