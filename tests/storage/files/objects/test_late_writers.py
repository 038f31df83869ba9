"""Writers that come too late, and objects that are not as they were written: nothing is replaced, and what is damaged
is made again, alone."""

import json
from pathlib import Path

import obstore
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from tests.support.faulty import FaultyProxy
from tests.support.indexing import contents, index, objects_contents, reused
from vitalfew.flows.cli.main import app
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
            obstore.put(direct, lock, json.dumps({"holder": "another-machine 1-1"}).encode())

    proxy.before(take_over)
    with pytest.raises(LeaseLost, match="another run took this over"):
        index(store)
    assert [run.state for run in read_runs(store)] == ["failed"]
    assert "vectors" not in {artifact.table for artifact, _ in complete_artifacts(store)}
    index(store)
    index(tmp_path)
    assert objects_contents(store) == contents(tmp_path)


@pytest.mark.slow
def test_what_is_damaged_is_found_and_made_again_alone(
    store: Path, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # else what is a second old is not remembered
    monkeypatch.setattr("vitalfew.storage.files.checksums.SETTLED_NS", -(10**12))
    (vectors,) = (manifest for manifest in index(store).manifests if manifest.stage == "encode")
    whole, victim = objects_contents(store), store / vectors.shards[1].files[0].path
    content = files.read_bytes(victim)
    obstore.put(client.client(victim), client.key(victim), content[:-20] + bytes(20))
    done = verified(store)
    assert (done.exit_code, done.output.count("by-")) == (1, 1), done.output
    assert victim.name in done.output
    again = index(store)
    assert {manifest.stage for manifest in again.manifests} - reused(again) == {"encode"}
    assert objects_contents(store) == whole
    assert verified(store).exit_code == 0


def verified(store: Path) -> Result:
    return CliRunner().invoke(app, ["store", "verify", "--store", str(store)], env={"COLUMNS": "300"})
