"""What goes wrong outside of the program: full disks, changed sources, damaged records, media, odd texts."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.support.indexing import SYNTHETIC, contents, index
from tests.support.shared import indexed
from vitalfew.flows.cli.main import app
from vitalfew.storage.runs import read_runs
from vitalfew.tasks import load
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.tables import JsonLines

ROOT = Path(__file__).parents[3]
ENCODER = "encode.encoder=tests.support.fakes:HashEncoder"
FAKE = ["--set", ENCODER, "--set", "load.shard_passages=20", "--runner", "serial"]


def run(*arguments: str | Path) -> Result:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def rows(path: Path, *texts: str, column: str = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({column: text}) + "\n" for text in texts), encoding="utf-8")
    return path


def in_namespace(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script that may mount; the test is skipped where the kernel does not let it."""
    unshare = shutil.which("unshare")
    if (
        not unshare
        or subprocess.run([unshare, "-rm", "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True).returncode
    ):
        pytest.skip("no mount namespaces here: unshare -rm is missing or forbidden")
    return subprocess.run([unshare, "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk, after, whole = tmp_path / "disk", tmp_path / "after", contents(indexed())
    disk.mkdir()
    words = ["index", SYNTHETIC, "--name", "test", "--store", str(disk / "store"), *FAKE]
    given = shlex.join([sys.executable, "-m", "vitalfew.flows.cli", *words])
    done = in_namespace(
        f"mount -t tmpfs -o size=500k disk {disk} && {{ {given}; echo status $?; find {disk} -name '*.tmp';"
        f"cp -a {disk}/store {after}-full; cp -a {disk}/store {after}; }} 2>&1"
    )
    index(after)  # where there is room
    told, second = done.stdout.split("status 1\n")
    assert f"Error: {disk}/store/" in told, done.stdout
    assert "No space left on device" in told
    assert "make room" in told
    assert "Traceback" not in done.stdout
    assert ".tmp" not in second
    made = contents(Path(f"{after}-full"))
    assert made
    assert made.items() < whole.items()  # what lies under a final name is whole
    assert contents(after) == whole


FITS = """
import sys, duckdb
from pathlib import Path
from vitalfew.storage.catalog.database import CATALOG, build
from vitalfew.storage.files import NotWritten
disk = Path(sys.argv[1])
for room in range(0, 1_000_000, 300_000):
    store = disk / str(room)
    store.mkdir()
    (disk / "filler").write_bytes(bytes(1_200_000 - room))
    try:
        build(store)
    except NotWritten as error:
        print("refused", "No space left" in str(error), [*store.iterdir()])
    else:
        with duckdb.connect(str(store / CATALOG), read_only=True) as connection:
            print("whole", connection.sql("SELECT count(*) > 20 FROM duckdb_views() WHERE NOT internal").fetchall())
        (store / CATALOG).unlink()
    (disk / "filler").unlink()
"""


@pytest.mark.slow
def test_a_catalog_for_which_there_is_no_room_is_not_left_without_its_tables(tmp_path: Path) -> None:
    """DuckDB closes a database of which it could write only a part, and says nothing."""
    disk = tmp_path / "disk"
    disk.mkdir()
    given = shlex.join([sys.executable, "-c", FITS, str(disk)])
    done = in_namespace(f"mount -t tmpfs -o size=1200k disk {disk} && {given}")
    assert {*done.stdout.splitlines()} == {"refused True []", "whole [(True,)]"}, done


BARE = ("--retriever", "core_context")
"""For an index without keywords."""
SHORT = [f"Passage {n} is here. It is short." for n in range(30)]


def rewrite(path: Path) -> None:
    """As many bytes, others."""
    path.write_text(path.read_text().replace("short", "brief"))


@pytest.mark.parametrize("change", [rewrite, Path.unlink])
def test_a_source_that_changes_while_it_is_read(
    tmp_path: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, records = rows(tmp_path / "rows.jsonl", *SHORT), JsonLines.records

    def disturbed(self: JsonLines):
        for number, record in enumerate(records(self)):
            if number == 20:
                change(file)
            yield record

    with monkeypatch.context() as patch:
        patch.setattr(load, "RUN_ROWS", 9)
        patch.setattr(JsonLines, "records", disturbed)
        with pytest.raises(InputError, match=r"rows\.jsonl was changed or replaced while it was read.*run again"):
            index(tmp_path / "s", f"jsonl:{file}")
    assert read_runs(tmp_path / "s")[-1].state == "failed"
    assert contents(tmp_path / "s") == {}
    rows(file, *SHORT)
    index(tmp_path / "s", f"jsonl:{file}")  # what was staged before the change is that of the old content
    index(tmp_path / "new", f"jsonl:{file}")
    assert contents(tmp_path / "s") == contents(tmp_path / "new")


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def other_json(path: Path) -> None:
    path.write_text('{"shards": [{}], "preparation": null}')


RECORDS = ["*/*/manifest.json", "*/*/done/*.json", "runs/*.json", "indexes/*.json"]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the index of `rows.jsonl` beside it."""
    folder = tmp_path_factory.mktemp("short")
    file = rows(folder / "rows.jsonl", *SHORT)
    index(folder / "store", f"jsonl:{file}")
    return folder / "store"


@pytest.mark.parametrize(("records", "damage"), [*zip(RECORDS, [halve, other_json] * 2, strict=True)])
def test_damaged_records_of_a_whole_store(
    tmp_path: Path, short: Path, records: str, damage: Callable[[Path], None]
) -> None:
    file, store = short.parent / "rows.jsonl", tmp_path / "s"
    shutil.copytree(short, store)
    before = contents(store)
    damaged = list(store.glob(records))
    assert damaged
    for path in damaged:
        damage(path)
    for arguments in (["sql", "SELECT * FROM runs"], ["doctor"], ["search", "Who?", "--index", "test", *BARE]):
        done = run(*arguments, "--store", store)
        broken = arguments[0] == "search" and records in ("*/*/manifest.json", "indexes/*.json")
        assert done.exit_code == int(broken), done.output
        assert not broken or "vitalfew index" in done.output
    for arguments in (["store", "ls"], ["store", "verify"], ["store", "gc"]):
        assert "Traceback" not in run(*arguments, "--store", store).output
    index(store, f"jsonl:{file}")
    assert contents(store) == before
    assert run("search", "Who?", "--index", "test", *BARE, "--store", store).exit_code == 0


@pytest.mark.slow
def test_a_store_on_read_only_media(tmp_path: Path) -> None:
    shutil.copytree(indexed(), tmp_path / "store")
    where = ["--store", str(tmp_path / "other")]
    commands = [
        ["search", "Who built it?", "--index", "test", "--top-k", "1", *BARE, *where],
        ["sql", "SELECT count(*) AS passages FROM passages", *where],
        ["store", "verify", *where],
        ["index", SYNTHETIC, "--name", "new", *FAKE, *where],
        ["store", "rm", "test", *where],
    ]
    script = tmp_path / "script.py"
    script.write_text(
        "from tests.flows.pipelines.test_faults import run\n"
        f"for arguments in {commands!r}:\n"
        "    done = run(*arguments)\n    print(done.output, 'status', done.exit_code)\n"
    )
    done = in_namespace(
        f"cd {tmp_path} && mkdir other && mount --bind store other && mount -o remount,ro,bind other && cd {ROOT} &&"
        f"PYTHONPATH={ROOT} {sys.executable} {script} 2>&1"
    )
    statuses = [line.split()[-1] for line in done.stdout.splitlines() if line.strip().startswith("status ")]
    assert statuses == ["0", "0", "0", "1", "1"], done.stdout
    assert done.stdout.count("No faults in") == 1
    assert "Read-only file system. A store must be writable" in done.stdout
    assert "Traceback" not in done.stdout
