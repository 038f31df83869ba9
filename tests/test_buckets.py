"""Commands on a store in a bucket and twenty `kill -9` at random moments: nothing is lost, and nothing differs."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest
from typer.testing import CliRunner

from tests.support.indexing import contents, objects_contents, sql
from tests.support.killing import is_killed, seconds
from tests.support.object_store import ObjectServer, everything_in, s3_server
from vitalfew.configs.paths import BucketPath
from vitalfew.storage.artifacts import complete_artifacts
from vitalfew.storage.files.objects import client
from vitalfew.storage.runs import read_runs

pytestmark = pytest.mark.slow

KILLS = 10
"""Of each command."""
RECORDS = ("manifest.json", "stage.json", "lock", "done")
"""What lies in an artifact's folder besides the files that its manifest names."""
OTHERS = ("costs", "indexes", "quotes", "runs", "reports", "sources")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    with s3_server() as running:
        for name, value in {**running.environment, "VITALFEW_CACHE": str(tmp_path / "cache")}.items():
            monkeypatch.setenv(name, value)
        client._client.cache_clear()
        client._hurried.cache_clear()
        yield running


def _index(place: Path, store: Path) -> list[str]:
    command = ["index", "synthetic:passages=160,questions=30,seed=3", "--name", "test", "--runner", "serial"]
    fakes = ["encode.encoder=tests.support.fakes:HashEncoder", "load.shard_passages=40", "bm25.enabled=true"]
    return [*command, *(word for setting in fakes for word in ("--set", setting)), "--store", str(store)]


EXPERIMENT = """
questions: {sample: 12, batch: 6}
generate: {generator: "tests.support.fakes:FirstWords"}
methods:
  naive RAG: {retrieve: {retriever: passage, top_k: 5}}
  PFE-Self-RAG:
    retrieve: {retriever: passage, top_k: 5}
    refine: {refiner: mmr, top_k: 3}
    generate: {per_context: true}
    critique: {critic: embedded}
    select: {selector: pareto_ideal}
"""


def _evaluate(place: Path, store: Path) -> list[str]:
    return ["evaluate", str(place / "trial.yaml"), "--index", "test", "--runner", "serial", "--store", str(store)]


@pytest.mark.parametrize(("command", "first"), [(_index, None), (_evaluate, _index)])
def test_ten_kills_at_random_moments(
    tmp_path: Path,
    server: ObjectServer,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[[Path, Path], list[str]],
    first: Callable[[Path, Path], list[str]] | None,
) -> None:
    """Each kill meets the command as it goes on from the last one; where it comes to its end, it begins anew."""
    (tmp_path / "trial.yaml").write_text(EXPERIMENT)
    environment = {**server.environment, "VITALFEW_CACHE": str(tmp_path / "cache")}
    undisturbed, before = tmp_path / "undisturbed", _place(server, "before")
    for store in (undisturbed, before):
        if first:
            seconds(first(tmp_path, store), environment)
    seconds(command(tmp_path, undisturbed), environment)
    whole = contents(undisturbed)
    whole_takes = seconds(command(tmp_path, _copied(server, before, "timed")), environment)
    moments = random.Random(command.__name__)
    kills = stores = 0
    while kills < KILLS:
        store = _copied(server, before, str(stores))
        stores += 1
        assert stores < 3 * KILLS
        while kills < KILLS and is_killed(command(tmp_path, store), moments.uniform(0, whole_takes), environment):
            kills += 1
            assert objects_contents(store).items() <= whole.items()
        seconds(command(tmp_path, store), environment)
        _is_as_if_nothing_had_happened(store, whole)
    _is_clean(server, store)
    assert objects_contents(store) == whole


def _place(server: ObjectServer, name: str) -> Path:
    return BucketPath("s3:", server.bucket, name)


def _names(server: ObjectServer, store: Path) -> list[str]:
    """Of all objects of a store."""
    within = f"{client.key(store)}/"
    return [entry.key.removeprefix(within) for entry in everything_in(server) if entry.key.startswith(within)]


def _copied(server: ObjectServer, store: Path, name: str) -> Path:
    copy = _place(server, name)
    for path in _names(server, store):
        obstore.copy(client.client(store), client.key(store / path), client.key(copy / path))
    return copy


def _is_as_if_nothing_had_happened(store: Path, whole: dict[str, str]) -> None:
    assert objects_contents(store) == whole
    states = Counter(run.state for run in read_runs(store))
    assert set(states) <= {"completed", "interrupted"}
    assert read_runs(store)[-1].state == "completed"
    assert sql(store, "SELECT stage, shard FROM costs GROUP BY stage, shard, fingerprint HAVING count(*) > 1") == []


def _is_clean(server: ObjectServer, store: Path) -> None:
    from vitalfew.flows.cli.main import app

    for words in (["store", "gc", "--delete"], ["store", "verify"]):
        done = CliRunner().invoke(app, [*words, "--store", str(store)])
        assert done.exit_code == 0, done.output
    assert "No fault" in done.output
    assert _unreferred(server, store) == []


def _unreferred(server: ObjectServer, store: Path) -> list[str]:
    """Objects in artifacts' folders that neither a manifest names nor are records."""
    referred = {file.path for _, manifest in complete_artifacts(store) for file in manifest.files()}
    parts = {name: name.split("/") for name in _names(server, store) if name not in referred}
    inside = {name: own for name, own in parts.items() if len(own) > 1 and own[0] not in OTHERS}
    return [name for name, own in inside.items() if own[2] not in RECORDS]
