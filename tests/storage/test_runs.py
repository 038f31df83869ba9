"""Records of runs: what they say of a process that was killed, and of another one with its id."""

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.indexing import sql
from vitalfew.flows.cli.main import app
from vitalfew.storage import runs
from vitalfew.storage.files import this_process
from vitalfew.storage.upkeep.inventory import SILENCE, RetentionPolicy, references

RUN = """
import sys
from pathlib import Path
from vitalfew.storage.runs import recorded_run
with recorded_run(Path(sys.argv[1]), "index_corpus", "demo", {}, ["passages/0123456789abcdef"]) as run:
    print(run.run_id, flush=True)
    input()
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path


def test_sql_says_of_a_killed_run_that_it_was_interrupted(store: Path) -> None:
    command = [sys.executable, "-c", RUN, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert sql(store, "SELECT state FROM runs") == [("running",)]
        process.send_signal(signal.SIGKILL)
    assert sql(store, "SELECT state FROM runs") == [("interrupted",)]


def changed(store: Path, **changes: str) -> None:
    """The record of a run that this process has done, changed."""
    with runs.recorded_run(store, "index_corpus", "demo", {}, ["passages/0123456789abcdef"]) as run:
        path = store / "runs" / f"{run.run_id}.json"
        record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, **changes}))


@pytest.mark.parametrize(("silent", "kept"), [(0.5, True), (2, False)])
def test_a_run_out_of_sight_is_believed_until_it_is_silent(store: Path, silent: float, kept: bool) -> None:
    """One in another container of this machine, whose host has the same name."""
    started = str(datetime.now(UTC) - silent * SILENCE)
    changed(store, process="0123456789ab-4194304-1", state="running", started=started)
    assert [run.state for run in runs.read_runs(store)] == ["running"]
    assert bool(references(store, RetentionPolicy(unfinished_days=0))) == kept


def test_only_its_own_runs_are_cancelled(store: Path) -> None:
    """Not that of an ended process, whose id this one has by now."""
    with runs.recorded_run(store, "index_corpus", "own", {}, []):
        changed(store, process=f"{this_process()}1", state="running")
        runs.cancel_own_runs(store)
        recorded = {run.name: run.state for run in runs.read_runs(store)}
    assert recorded == {"own": "cancelled", "demo": "interrupted"}


def test_a_text_that_commands_a_terminal_is_shown_as_pictures(store: Path) -> None:
    """Such as a server's error, or a title, in a run's record."""
    commands = "\x1b]0;owned\x07\x1b[2J[/b]\u202e"
    with pytest.raises(ValueError, match="owned"), runs.recorded_run(store, "index_corpus", commands, {}, []):
        raise ValueError(commands)
    for words in (["runs"], ["sql", "SELECT error FROM runs"]):
        shown = CliRunner().invoke(app, [*words, "--store", str(store)]).output
        assert "owned" in shown
        assert not {"\x1b", "\x07"} & {*shown}
