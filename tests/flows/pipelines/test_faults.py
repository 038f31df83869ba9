"""What goes wrong outside of the program: full disks, changed sources, damaged records, odd texts, odd paths."""

import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.support.indexing import SYNTHETIC, contents, index, sql
from tests.support.shared import indexed
from vitalfew.flows.cli.main import app
from vitalfew.storage.artifacts import Artifact, ShardRecord
from vitalfew.storage.runs import read_runs
from vitalfew.tasks import load
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.tables import JsonLines

ROOT = Path(__file__).parents[3]
FAKE = [
    "--set",
    "encode.encoder=tests.support.fakes:HashEncoder",
    "--set",
    "load.shard_passages=20",
    "--runner",
    "serial",
]


def run(*arguments: str | Path) -> Result:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def command(store: Path, *datasets: str) -> list[str]:
    given = [sys.executable, "-m", "vitalfew.flows.cli", "index", *(datasets or [SYNTHETIC]), "--name", "test"]
    return [*given, "--store", str(store), *FAKE]


def rows(path: Path, *texts: str, column: str = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({column: text}) + "\n" for text in texts), encoding="utf-8")
    return path


def half_written(store: Path) -> list[Path]:
    return [path for path in store.rglob("*") if path.name.endswith(".tmp")]


@pytest.fixture(scope="module")
def whole() -> dict[str, str]:
    """What an undisturbed run gives."""
    return contents(indexed())


def in_namespace(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script that may mount; the test is skipped where the kernel does not let it."""
    unshare = shutil.which("unshare")
    if (
        not unshare
        or subprocess.run([unshare, "-rm", "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True).returncode
    ):
        pytest.skip("no mount namespaces here: unshare -rm is missing or forbidden")
    return subprocess.run([unshare, "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True)


# Full disks


def test_a_disk_that_is_really_full(tmp_path: Path, whole: dict[str, str]) -> None:
    disk, after = tmp_path / "disk", tmp_path / "after"
    disk.mkdir()
    given = shlex.join(command(disk / "store"))
    done = in_namespace(
        f"mount -t tmpfs -o size=460k disk {disk} && {{ {given}; echo status $?; find {disk} -name '*.tmp';"
        f"cp -a {disk}/store {after}-full; cp -a {disk}/store {after}; }} 2>&1"
    )
    index(after)  # where there is room
    told, second = done.stdout.split("status 1\n")
    assert f"Error: {disk}/store/" in told, done.stdout
    assert "No space left on device" in told
    assert "make room" in told
    assert "Traceback" not in done.stdout
    assert ".tmp" not in second
    assert [run.state for run in read_runs(after)] in (["failed", "completed"], ["interrupted", "completed"])
    made = contents(Path(f"{after}-full"))
    assert made
    assert made.items() < whole.items()  # what lies under a final name is whole
    assert contents(after) == whole
    kept = [path for path in made if "passages" in path]
    assert all((after / path).stat().st_mtime_ns == (Path(f"{after}-full") / path).stat().st_mtime_ns for path in kept)


FITS = """
import sys, duckdb
from pathlib import Path
from vitalfew.storage.catalog.database import CATALOG, build
from vitalfew.storage.files import NotWritten
disk = Path(sys.argv[1])
for room in range(0, 1_000_000, 50_000):
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


def test_a_catalog_for_which_there_is_no_room_is_not_left_without_its_tables(tmp_path: Path) -> None:
    """DuckDB closes a database of which it could write only a part, and says nothing."""
    disk = tmp_path / "disk"
    disk.mkdir()
    given = shlex.join([sys.executable, "-c", FITS, str(disk)])
    done = in_namespace(f"mount -t tmpfs -o size=1200k disk {disk} && {given}")
    assert {*done.stdout.splitlines()} == {"refused True []", "whole [(True,)]"}, done


def test_a_file_that_may_not_grow_further(tmp_path: Path, whole: dict[str, str]) -> None:
    """A limit of the process, which needs no rights to set: the same as a quota."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

    done = subprocess.run(command(tmp_path), cwd=ROOT, preexec_fn=limit, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"Error: {tmp_path}/" in done.stderr, done.stderr
    assert "File too large" in done.stderr
    assert "ulimit" in done.stderr
    assert "Traceback" not in done.stderr
    assert not half_written(tmp_path)
    assert read_runs(tmp_path)[-1].state == "failed"
    assert contents(tmp_path).items() < whole.items()
    index(tmp_path)
    assert contents(tmp_path) == whole


# Extremes


# Sources that change while they are read


def grow(path: Path) -> None:
    with path.open("a") as file:
        file.write('{"text": "One more passage. It came late."}\n')


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 7)


def replace(path: Path) -> None:
    other = rows(path.with_name("new"), *(f"Other passage {n}. It is new." for n in range(60)))
    os.replace(other, path)


def rewrite(path: Path) -> None:
    """As many bytes, others."""
    path.write_text(path.read_text().replace("short", "brief"))


SHORT = [f"Passage {n} is here. It is short." for n in range(60)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What an index of the short passages is."""
    folder = tmp_path_factory.mktemp("undisturbed")
    index(folder / "store", f"jsonl:{rows(folder / 'rows.jsonl', *SHORT)}")
    return contents(folder / "store")


@pytest.mark.parametrize("change", [grow, shrink, replace, rewrite, Path.unlink])
def test_a_source_that_changes_while_it_is_read(
    tmp_path: Path, undisturbed: dict[str, str], change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = rows(tmp_path / "rows.jsonl", *SHORT)
    original = file.read_bytes()
    monkeypatch.setattr(load, "RUN_ROWS", 9)
    records = JsonLines.records

    def disturbed(self: JsonLines):
        for number, record in enumerate(records(self)):
            if number == 30:
                change(file)
            yield record

    with monkeypatch.context() as patch:
        patch.setattr(JsonLines, "records", disturbed)
        with pytest.raises(InputError, match=r"rows\.jsonl was changed or replaced while it was read.*run again"):
            index(tmp_path / "s", f"jsonl:{file}")
    assert read_runs(tmp_path / "s")[-1].state == "failed"
    assert contents(tmp_path / "s") == {}
    if file.exists():
        index(tmp_path / "new", f"jsonl:{file}")
        index(tmp_path / "s", f"jsonl:{file}")
        assert contents(tmp_path / "s") == contents(tmp_path / "new")
    # what was staged before the change is still that of the old content
    file.write_bytes(original)
    index(tmp_path / "s", f"jsonl:{file}")
    assert undisturbed.items() <= contents(tmp_path / "s").items()


# Damaged records


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def other_json(path: Path) -> None:
    path.write_text('{"shards": [{}], "preparation": null}')


def no_object(path: Path) -> None:
    path.write_text("[1]")


DAMAGES = [halve, zeros, other_json, no_object]
RECORDS = ["*/*/manifest.json", "*/*/stage.json", "*/*/done/*.json", "runs/*.json", "indexes/*.json"]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the index of `rows.jsonl` beside it."""
    folder = tmp_path_factory.mktemp("short")
    file = rows(folder / "rows.jsonl", *(f"Passage {n} is here. It is short." for n in range(30)))
    index(folder / "store", f"jsonl:{file}")
    return folder / "store"


@pytest.mark.parametrize(("records", "damage"), [*zip(RECORDS, [halve, other_json] * 3, strict=False)])
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
    for arguments in (["sql", "SELECT * FROM runs"], ["doctor"], ["search", "Who?", "--index", "test"]):
        done = run(*arguments, "--store", store)
        broken = arguments[0] == "search" and records in ("*/*/manifest.json", "indexes/*.json")
        assert done.exit_code == int(broken), done.output
        assert not broken or "vitalfew index" in done.output
    for arguments in (["store", "ls"], ["store", "verify"], ["store", "gc"]):
        assert "Traceback" not in run(*arguments, "--store", store).output
    index(store, f"jsonl:{file}")
    assert contents(store) == before
    assert run("search", "Who?", "--index", "test", "--store", store).exit_code == 0


class Interrupted(Exception):
    """Stands for whatever ends a run."""


def interrupt(store: Path, stage: str, shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run an index that ends right after it has marked a shard of a stage."""
    mark_done = Artifact.mark_done

    def end(self: Artifact, record: ShardRecord) -> ShardRecord:
        marked = mark_done(self, record)
        if (self.table, record.shard) == (stage, shard):
            raise Interrupted
        return marked

    with monkeypatch.context() as patch:
        patch.setattr(Artifact, "mark_done", end)
        with pytest.raises(Interrupted):
            index(store)


@pytest.mark.parametrize(
    ("stage", "shard", "damage"),
    [
        ("passages", 1, halve),
        ("passages", 1, no_object),
        ("sentences", -1, zeros),
        ("sentences", -1, other_json),
        ("vectors", 2, halve),
        ("vectors", 2, other_json),
    ],
)
def test_damaged_records_of_an_unfinished_store(
    tmp_path: Path, whole: dict[str, str], stage: str, shard: int, damage: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    interrupt(tmp_path, stage, shard, monkeypatch)
    for path in [*tmp_path.glob("*/*/*.json"), *tmp_path.glob("*/*/done/*.json"), *tmp_path.glob("*/*/staging/*.json")]:
        damage(path)
    index(tmp_path)
    assert contents(tmp_path) == whole
    assert not list(tmp_path.glob("*/*/staging"))


# Stores that cannot be written


def test_a_store_on_read_only_media(tmp_path: Path) -> None:
    shutil.copytree(indexed(), tmp_path / "store")
    where = ["--store", str(tmp_path / "other")]
    commands = [
        ["search", "Who built it?", "--index", "test", "--top-k", "1", *where],
        ["sql", "SELECT count(*) AS passages FROM passages", *where],
        ["store", "ls", *where],
        ["store", "verify", *where],
        ["store", "gc", *where],
        ["index", SYNTHETIC, "--name", "new", *FAKE, *where],
        ["store", "rm", "test", *where],
        ["store", "gc", "--delete", *where],
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
    assert statuses == ["0", "0", "0", "0", "0", "1", "1", "0"], done.stdout
    assert done.stdout.count("No faults in") == 1
    assert "Read-only file system. A store must be writable" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("kind", ["file", "below a file", "dangling link", "loop"])
def test_a_store_that_is_none(tmp_path: Path, kind: str) -> None:
    store = tmp_path / "store"
    if kind == "dangling link":
        store.symlink_to(tmp_path / "gone" / "deep")
    elif kind == "loop":
        store.symlink_to(store)
    else:
        store.write_text("not a directory")
        store = store / "deep" if kind == "below a file" else store
    for arguments in (
        ["index", SYNTHETIC, "--name", "n", *FAKE],
        ["search", "Who?", "--index", "n"],
        ["sql", "SELECT 1"],
        ["store", "ls"],
    ):
        done = run(*arguments, "--store", store)
        if kind != "dangling link" or arguments[0] != "index":
            assert done.exit_code == 1, done.output
            assert "store" in done.output


# Paths and names


def test_a_store_of_an_odd_name(tmp_path: Path) -> None:
    store = tmp_path / 'it\'s [a] *store?; DROP "x" \n ünïcode'
    index(store)
    assert sql(store, "SELECT count(*) FROM passages JOIN artifacts USING (fingerprint)") == [(60,)]
    assert run("search", "Who built it?", "--index", "test", "--store", store).exit_code == 0
    assert run("store", "verify", "--store", store).exit_code == 0


@pytest.mark.parametrize("name", ["../indexes/test", "..", "../../x", "/etc/passwd", "a/b", "", "a\0b", "a\n"])
def test_names_lead_nowhere_else(tmp_path: Path, short: Path, name: str) -> None:
    shutil.copytree(short, tmp_path, dirs_exist_ok=True)
    before = sorted(path.name for path in (tmp_path / "indexes").iterdir())
    for arguments in (
        ["search", "Who?", "--index", name],
        ["index", SYNTHETIC, "--name", name, *FAKE],
        ["store", "rm", name],
        ["store", "verify", "--index", name],
    ):
        done = run(*arguments, "--store", tmp_path)
        assert done.exit_code == 1, done.output
        assert "no index" in done.output or "name" in done.output
    assert sorted(path.name for path in (tmp_path / "indexes").iterdir()) == before
    assert [path.name for path in (tmp_path / "indexes").glob("*.json")] == ["test.json"]


ODD = [
    "Robert'); DROP TABLE passages;-- is a name. It is odd.",
    'A "quoted" text with \\ and \' in it. [bold]It has[/bold] [/] markup.',
    "A NUL \0 is in here. \0",
    "An escape \x1b[31mred\x1b[0m and a bell \x07. \x1b]0;title\x07 It is here.",
    "A C1 \x9b31m control. \x85 Next line.",
    "Right-to-left \u202e and zero \u200b width. \ufeff A mark.",
    "\U0001f600 An emoji. \U0001f468\u200d\U0001f469\u200d\U0001f467 Another.",
    "'; COPY (SELECT 1) TO '/tmp/vitalfew-must-not-exist'; --",
]
COLUMNS = ["te'xt", 'te"xt\n', "text); DROP TABLE passages;--", "a=b", "{}[]%s\\", "ü\u202e"]


@pytest.mark.parametrize("column", COLUMNS)
def test_odd_columns_and_texts(tmp_path: Path, column: str) -> None:
    file = rows(tmp_path / "rows.jsonl", *ODD, column=column)
    index(tmp_path / "s", f"jsonl:{file}?text={column}")
    stored = {text for (text,) in sql(tmp_path / "s", "SELECT text FROM passages")}
    assert stored == {text.strip() for text in ODD}
    parts = sql(tmp_path / "s", "SELECT passage_id, string_agg(text, '' ORDER BY position) FROM sentences GROUP BY 1")
    assert {text for _, text in parts} == stored
    missing = run("index", f"jsonl:{file}?text={column}x", "--name", "n", "--store", tmp_path / "none", *FAKE)
    assert missing.exit_code == 1
    assert "missing_column" in missing.output
