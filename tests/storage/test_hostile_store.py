"""A store of somebody else's: whatever its records say, nothing is written, removed or read outside of it, no command
ends without a message, and no text commands the terminal."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from typer.testing import CliRunner

from tests.support.evaluating import copied
from tests.support.object_store import ObjectServer, s3_server
from tests.support.shared import indexed
from vitalfew.configs.paths import store_place
from vitalfew.flows.cli.main import app
from vitalfew.storage import files
from vitalfew.storage.names import ArtifactName, FilePath, plain_path

CORPUS = "synthetic:passages=24,questions=4,seed=3"
SETTINGS = {"bm25": {"enabled": True}, "index": {"type": "sq8"}}
COMMANDS = (
    ["store", "ls"],
    ["store", "verify"],
    ["store", "gc"],
    ["runs"],
    ["costs"],
    ["doctor"],
    ["sql", "FROM runs"],
)
EVIL = "\x1b]0;owned\x07\x1b[2J[/b]\u202e"
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    return copied(indexed(CORPUS, **SETTINGS), tmp_path / "inner" / "theirs")


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with s3_server("hostile") as server:
        yield server


@pytest.fixture
def bucket(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {**server.environment, "VITALFEW_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    return store_place(f"s3://hostile/{tmp_path.name}")


def change(record: Path, how: Change) -> None:
    value = files.read_json(record)
    how(value)
    files.write_json(record, value)


def everything(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def only(store: Path, pattern: str) -> Path:
    return next(iter(files.find(store, pattern)))


def command(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words], env={"COLUMNS": "400"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@given(st.lists(st.sampled_from(["..", ".", "/", ".by-", "a", "-", "0", "\n", "passages/0123456789abcdef/", "\x1b"])))
def test_a_path_in_a_record_stays_below_its_artifact(pieces: list[str]) -> None:
    path = "".join(["passages/0123456789abcdef/", *pieces])
    try:
        TypeAdapter(FilePath).validate_python(path)
    except ValidationError:
        return
    for name in (path, plain_path(path)):
        assert ".." not in PurePosixPath(name).parts
        assert name == str(PurePosixPath(name))
        assert PurePosixPath(name).is_relative_to("passages/0123456789abcdef")
        assert name.isprintable()


@pytest.mark.parametrize(
    "name", ["../0123456789abcdef", "a/b/c", "passages/../..", "passages/0123456789abcdef\n", "/etc/x"]
)
def test_an_artifacts_name_is_a_table_and_a_fingerprint(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(ArtifactName).validate_python(name)


MANIFEST = "passages/*/manifest.json"


def to_path(path: str) -> Change:
    return lambda manifest: manifest.update(whole=[dict(FILE, path=path)])


FILE = {"table": "passages", "path": "", "rows": 1, "bytes": 4, "checksum": "0" * 32}
CHANGES: dict[str, tuple[str, Change]] = {
    "a path above the store": (MANIFEST, to_path("../.bashrc")),
    "one that becomes such": (MANIFEST, to_path("..by-a./.bashrc")),
    "an absolute path": (MANIFEST, to_path("/etc/passwd")),
    "another artifact's file": (MANIFEST, to_path("passages/0123456789abcdef/00000.parquet")),
    "a reserved table": (MANIFEST, lambda manifest: manifest.update(artifact="costs/0123456789abcdef")),
    "an artifact of another name": (MANIFEST, lambda manifest: manifest.update(artifact="../../x")),
    "inputs above the store": (MANIFEST, lambda manifest: manifest.update(inputs={"x": "../../x"})),
    "a stage that commands": (MANIFEST, lambda manifest: manifest.update(stage=EVIL)),
    "a date that is none": (MANIFEST, lambda manifest: manifest.update(completed="now")),
    "a cost that is no number": (MANIFEST, lambda manifest: manifest["preparation"]["cost"].update(usd=float("nan"))),
    "a run's id above the store": ("runs/*.json", lambda run: run.update(run_id="../../x")),
    "a run's date": ("runs/*.json", lambda run: run.update(started="2026-01-01")),
    "a run's process": ("runs/*.json", lambda run: run.update(process=EVIL, state="running")),
    "a run's artifacts": ("runs/*.json", lambda run: run.update(fingerprints=["../../x"])),
    "an index's name": ("indexes/*.json", lambda index: index.update(name="../../x")),
    "an index's generation": ("indexes/*.json", lambda index: index.update(generation=10**30)),
    "a generation's name": ("generations/*.json", lambda generation: generation.update(name="../../x")),
    "a generation's artifacts": (
        "generations/*.json",
        lambda generation: generation.update(artifacts={"faiss": "../../../x"}),
    ),
    "an index's artifacts": ("indexes/*.json", lambda index: index.update(artifacts={"faiss": "../../../x"})),
}


@pytest.mark.parametrize("path", ["../x/.bashrc", "..by-a./x/.bashrc", "../../manifest.json"])
def test_a_bucket_of_somebody_elses_writes_nothing_outside(
    bucket: Path, store: Path, tmp_path: Path, path: str
) -> None:
    assert command("store", "copy", str(store), str(bucket))[0] == 0
    record = only(bucket, MANIFEST)
    change(record, to_path(path))
    known = files.read_json(bucket / "register.json")
    files.write_bytes(
        bucket / "register.json", json.dumps({**known, "places": [*known["places"], path, f"../{path}"]}).encode()
    )
    before = everything(tmp_path)
    code, output = command("store", "copy", str(bucket), str(tmp_path / "inner" / "ours"))
    assert (code, f"{record} is damaged" in output) == (1, True), output
    assert all(place.startswith(("inner/ours/", "cache/")) for place in everything(tmp_path).keys() - before.keys())


def test_a_register_that_is_none_is_written_anew(bucket: Path, store: Path) -> None:
    command("store", "copy", str(store), str(bucket))
    before = files.find(bucket, "*/*/manifest.json")
    for content in (b"{", b"[]", b'{"changes": "x", "places": 3}'):
        files.write_bytes(bucket / "register.json", content)
        assert files.find(bucket, "*/*/manifest.json") == before
    files.write_json(bucket / "indexes" / "other.json", {})
    assert json.loads(files.read_bytes(bucket / "register.json"))["changes"] == 1


@pytest.mark.parametrize("what", CHANGES)
def test_a_record_that_names_what_is_outside_is_damaged(store: Path, tmp_path: Path, what: str) -> None:
    pattern, how = CHANGES[what]
    record = only(store, pattern)
    change(record, how)
    before = everything(tmp_path)
    for words in COMMANDS:
        _, output = command(*words, "--store", str(store))
        assert "\x1b" not in output
    assert command("store", "gc", "--delete", "--store", str(store))
    code, output = command("store", "copy", str(store), str(tmp_path / "inner" / "ours"))
    changed = {path for path, content in everything(tmp_path).items() if before.get(path) != content}
    assert all(path.startswith(("inner/ours/", "inner/theirs/")) for path in changed), changed
    if pattern not in ("runs/*.json", "generations/*.json"):  # these records are left out
        assert code == 1, output
        assert f"{record} is damaged" in output
    assert not [*files.find(tmp_path / "inner" / "ours", "runs/*.json")] or pattern != "runs/*.json"


def test_names_that_command_a_terminal_are_shown_as_pictures(store: Path) -> None:
    change(only(store, "runs/*.json"), lambda run: run.update(name=EVIL, error=EVIL, state="failed"))
    (store / "indexes" / f"{EVIL.replace('/', '')}.json").write_text("{}")
    (store / "passages" / "\x1b[2J").mkdir()
    for words in COMMANDS:
        _, output = command(*words, "--store", str(store))
        assert "\x1b" not in output, words
        assert "\x07" not in output, words


def test_a_remedy_is_safe_to_paste(store: Path) -> None:
    (only(store, "passages/*/done") / "x;touch pwned.json").write_text("{")
    _, output = command("store", "verify", "--store", str(store))
    assert "rm '" in output
    assert "rm /" not in output.replace("rm '/", "")


def test_a_symbolic_link_is_not_copied(store: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    run = only(store, "runs/*.json").stem
    (store / "reports" / run).mkdir(parents=True)
    (store / "reports" / run / "report.html").symlink_to(secret)
    code, output = command("store", "copy", str(store), str(tmp_path / "ours"))
    assert code == 0, output
    assert "report.html is a symbolic link" in output
    assert not any(path.read_bytes() == b"secret" for path in (tmp_path / "ours").rglob("*") if path.is_file())


@pytest.mark.parametrize("pattern", ["passages/*/00000.parquet", "passages/*/stage.json", "passages/*", "costs/*/*"])
def test_an_artifact_behind_a_symbolic_link_is_not_copied(store: Path, tmp_path: Path, pattern: str) -> None:
    path = only(store, pattern)
    path.rename(tmp_path / path.name)
    path.symlink_to(tmp_path / path.name)
    code, output = command("store", "copy", str(store), str(tmp_path / "ours"))
    assert code == 1
    assert "is a symbolic link, or behind one" in output


@pytest.mark.parametrize(
    "pattern",
    [
        "passages/*/manifest.json",
        "passages/*/stage.json",
        "passages/*/00000.parquet",
        "runs/*",
        "indexes/*",
        "costs/*/*",
    ],
)
def test_a_pipe_in_a_store_stops_nobody(store: Path, tmp_path: Path, pattern: str) -> None:
    path = only(store, pattern)
    path.unlink()
    os.mkfifo(path)
    for words in COMMANDS:
        command(*words, "--store", str(store))
    command("store", "copy", str(store), str(tmp_path / "ours"))


def test_a_record_without_end_is_damaged(store: Path) -> None:
    record = only(store, "runs/*.json")
    files.write_text(record, "[" * 100_000)
    code, output = command("store", "verify", "--store", str(store))
    assert code == 1
    assert f"{record} is damaged" in output


def test_half_a_character_in_a_record_is_damage(store: Path) -> None:
    record = only(store, "runs/*.json")
    files.write_text(record, record.read_text().replace('"test"', '"\\ud800"'))
    assert command("sql", "SELECT state FROM runs", "--store", str(store), "--format", "csv")[1].split() == [
        "state",
        "unreadable",
    ]
