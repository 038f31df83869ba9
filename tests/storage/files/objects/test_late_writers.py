"""Writers that come too late, and objects that are not as they were written: nothing is replaced, and what is damaged
is made again, alone."""

import json
from pathlib import Path

import obstore
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.support.faulty import FaultyProxy
from tests.support.indexing import contents, index, objects_contents, reused
from tests.support.object_store import everything_in
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, ShardRecord, complete_artifacts
from vitalfew.storage.costs import Cost
from vitalfew.storage.files import LeaseLost
from vitalfew.storage.files.objects import client, leases
from vitalfew.storage.names import attempt
from vitalfew.storage.runs import read_runs

ROWS = pa.table({"passage_id": [1, 2], "text": ["one", "two"]})


def written(artifact: Artifact, run_id: str, rows: pa.Table = ROWS) -> ShardRecord:
    """An attempt's shard, not marked yet."""
    with attempt(run_id):
        return ShardRecord(0, run_id, [artifact.write(0, "passages", rows)], 2, Cost("2026-11-24T00:00:00+00:00"))


def test_of_two_attempts_the_first_that_is_marked_counts(store: Path) -> None:
    artifact = Artifact(store, "passages", "0123456789abcdef")
    late, early = written(artifact, "late"), written(artifact, "early")
    assert late.files[0].path != early.files[0].path
    assert artifact.mark_done(early) == early
    before = files.read_bytes(artifact.marker(0))
    assert artifact.mark_done(late) == early
    assert files.read_bytes(artifact.marker(0)) == before
    assert not files.exists(store / late.files[0].path)
    assert artifact.read(0).equals(ROWS)


def test_an_attempt_replaces_one_whose_file_is_gone(store: Path) -> None:
    artifact = Artifact(store, "passages", "0123456789abcdef")
    lost, again = written(artifact, "lost"), written(artifact, "again", ROWS.slice(1))
    artifact.mark_done(lost)
    assert artifact.path(0) == store / lost.files[0].path
    files.remove(store / lost.files[0].path)
    assert artifact.record(0) is None
    assert artifact.mark_done(again) == again
    assert artifact.read(0).equals(ROWS.slice(1))


@pytest.mark.slow
def test_a_run_that_lost_its_lease_does_not_complete(
    store: Path, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another machine takes an artifact over as soon as its shards are done."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)
    monkeypatch.setattr(leases, "LOOK_SECONDS", 0.05)
    direct = client._connect("s3", store.parts[1], {})

    def take_over(method: str, path: str) -> None:
        folder, _, name = path.partition("/done/")
        if method == "PUT" and "/vectors/" in folder and name == "00000.json":
            proxy.before(None)
            lock = f"{folder.removeprefix(f'/{store.parts[1]}/')}/lock"
            obstore.put(direct, lock, json.dumps({"token": 9, "holder": "another-machine 1-1", "beat": 0}).encode())

    proxy.before(take_over)
    with pytest.raises(LeaseLost, match="another run took this over"):
        index(store)
    assert [run.state for run in read_runs(store)] == ["failed"]
    assert "vectors" not in {artifact.table for artifact, _ in complete_artifacts(store)}
    index(store)
    index(tmp_path)
    assert objects_contents(store) == contents(tmp_path)


def damaged(path: Path) -> None:
    """Overwritten with other bytes, as many."""
    content = files.read_bytes(path)
    obstore.put(client.client(path), client.key(path), content[:-20] + bytes(20))


@pytest.mark.slow
def test_what_is_damaged_is_found_and_made_again_alone(
    store: Path, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "vitalfew.storage.files.checksums.SETTLED_NS", -(10**12)
    )  # else what is a second old is not remembered
    first = index(store)
    whole, keys = objects_contents(store), {entry.key: entry.rest for entry in everything_in(proxy.server)}
    (vectors,) = (manifest for manifest in first.manifests if manifest.stage == "encode")
    victim = store / vectors.shards[1].files[0].path
    damaged(victim)
    done = verified(store)
    assert done[0] == 1
    assert victim.name in done[1]
    assert "vitalfew index" in done[1]
    assert done[1].count("by-") == 1, done[1]
    again = index(store)
    assert {manifest.stage for manifest in again.manifests} - reused(again) == {"encode"}
    assert objects_contents(store) == whole
    after = {entry.key: entry.rest for entry in everything_in(proxy.server)}
    rewritten = {key for key in keys.keys() & after.keys() if keys[key] != after[key] and "/vectors/" in key}
    assert {key.rpartition("/")[2] for key in rewritten} <= {
        "stage.json",
        "manifest.json",
        "shards.parquet",
        "00001.json",
        "lock",
    }
    assert verified(store)[0] == 0


def verified(store: Path) -> tuple[int, str]:
    from vitalfew.flows.cli.main import app

    done = CliRunner().invoke(app, ["store", "verify", "--store", str(store)], env={"COLUMNS": "300"})
    return done.exit_code, done.output
