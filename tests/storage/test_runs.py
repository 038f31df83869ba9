"""Records of runs: what they say of a process that was killed, and of another one with its id."""

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.indexing import sql
from vitalfew.storage import runs
from vitalfew.storage.files import this_process
from vitalfew.storage.upkeep.inventory import SILENCE, RetentionPolicy, references

RUN = """
from pathlib import Path
from vitalfew.storage.runs import recorded_run
with recorded_run(Path({store!r}), "index_corpus", "demo", {{}}, ["passages/0123456789abcdef"]) as run:
    print(run.run_id, flush=True)
    input()
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path


def states(store: Path) -> list[str]:
    return [state for (state,) in sql(store, "SELECT state FROM runs")]


def test_sql_says_of_a_killed_run_that_it_was_interrupted(store: Path) -> None:
    code = RUN.format(store=str(store))
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert states(store) == ["running"]
        process.send_signal(signal.SIGKILL)
    assert states(store) == ["interrupted"]
    assert [run.state for run in runs.read_runs(store)] == ["interrupted"]


def with_the_id_of_this_process(store: Path, **changes: str) -> None:
    """A record of a run whose process was killed, and whose id another process has by now."""
    with runs.recorded_run(store, "index_corpus", "demo", {}, ["passages/0123456789abcdef"]) as run:
        path = store / "runs" / f"{run.run_id}.json"
        record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, **changes}))


ENDED = f"{this_process()}1"
"""The name of a process that had the id of this one."""


def test_a_run_whose_id_another_process_has_blocks_nothing(store: Path) -> None:
    with_the_id_of_this_process(store, process=ENDED, state="running")
    assert [run.state for run in runs.read_runs(store)] == ["interrupted"]
    assert references(store, RetentionPolicy(unfinished_days=0)) == {}


def test_a_run_out_of_sight_is_believed_until_it_is_silent(store: Path) -> None:
    """One in another container of this machine, whose host has the same name."""
    with_the_id_of_this_process(store)
    (path,) = store.glob("runs/*.json")
    record = {**json.loads(path.read_text()), "process": "0123456789ab-4194304-1"}
    for age, kept in ((SILENCE / 2, True), (SILENCE * 2, False)):
        path.write_text(json.dumps(record | {"state": "running", "started": str(datetime.now(UTC) - age)}))
        assert [run.state for run in runs.read_runs(store)] == ["running"]
        assert bool(references(store, RetentionPolicy(unfinished_days=0))) == kept


def test_only_its_own_runs_are_cancelled(store: Path) -> None:
    with runs.recorded_run(store, "index_corpus", "own", {}, []):
        with_the_id_of_this_process(store, process=ENDED, state="running")
        runs.cancel_own_runs(store)
        recorded = {run.name: run.state for run in runs.read_runs(store)}
    assert recorded == {"own": "cancelled", "demo": "interrupted"}


def test_a_run_that_ended_long_ago_needs_no_process(store: Path) -> None:
    with_the_id_of_this_process(store, state="completed", ended=str(datetime.now(UTC) - timedelta(days=400)))
    assert states(store) == ["completed"]
