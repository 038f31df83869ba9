"""A bucket whose lists tell of it as it was before: what is done with it comes out right all the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support import evaluating
from tests.support.faulty import FaultyProxy
from tests.support.indexing import contents, index, objects_contents, sql
from vitalfew.storage.manifests import ShardRecord
from vitalfew.tasks.stage import Progress, Stage

SETTINGS: dict[str, Any] = {
    "index": "test",
    "questions": {"sample": 10, "batch": 5},
    "retrieve": {"retriever": "passage", "top_k": 3},
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "methods": {"all": {}},
    "score": {"metrics": ["tokens"]},
}
Stopping = Callable[[Path], None]


@pytest.fixture
def half_done(monkeypatch: pytest.MonkeyPatch) -> Stopping:
    """Indexes a store until the second shard of its vectors."""
    goes_on = Stage.run_shard

    def stop(stage: Stage, shard: int, run_id: str, progress: Progress) -> ShardRecord:
        if stage.name == "encode" and shard == 1:
            raise RuntimeError("stopped")
        return goes_on(stage, shard, run_id, progress)

    def half(store: Path) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Stage, "run_shard", stop)
            with pytest.raises(RuntimeError, match="stopped"):
                index(store)

    return half


def counted(store: Path) -> list[tuple[Any, ...]]:
    stages = sql(store, "SELECT stage, count(*) FROM artifacts GROUP BY stage ORDER BY stage")
    return stages + sql(store, "SELECT name, state FROM runs ORDER BY started")


def collect(store: Path) -> None:
    from vitalfew.flows.cli.main import app

    for words in (["store", "gc", "--delete"], ["store", "verify"]):
        done = CliRunner().invoke(app, [*words, "--store", str(store)])
        assert done.exit_code == 0, done.output


@pytest.mark.slow
@pytest.mark.parametrize("since", ["nothing was there", "the index was half done"])
def test_what_is_done_by_old_lists(
    store: Path, proxy: FaultyProxy, tmp_path: Path, half_done: Stopping, since: str
) -> None:
    """A half-done index, the rest of it, an evaluation, a collection of what nothing refers to, and SQL."""
    if since == "nothing was there":
        proxy.old_lists()
        half_done(store)
    else:
        half_done(store)
        proxy.old_lists()
    half_done(tmp_path)
    for place in (store, tmp_path):
        index(place)
        evaluating.run(place, SETTINGS)
        collect(place)
    assert counted(store) == counted(tmp_path)
    proxy.clear()
    assert objects_contents(store) == contents(tmp_path)
    collect(store)
    assert objects_contents(store) == contents(tmp_path)
