"""Names and paths in a store that came from elsewhere: whatever its records say, nothing is written, removed or read
outside of it, and a symbolic link is not followed."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from typer.testing import CliRunner

from tests.support.evaluating import copied
from tests.support.shared import indexed
from vitalfew.flows.cli.main import app
from vitalfew.storage import files
from vitalfew.storage.names import FilePath, plain_path

CORPUS = "synthetic:passages=24,questions=4,seed=3"
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    return copied(indexed(CORPUS), tmp_path / "inner" / "theirs")


def change(record: Path, how: Change) -> None:
    value = files.read_json(record)
    how(value)
    files.write_json(record, value)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def only(store: Path, pattern: str) -> Path:
    return next(iter(files.find(store, pattern)))


def command(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["store", *words], env={"COLUMNS": "400"})
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


MANIFEST = "passages/*/manifest.json"
FILE = {"table": "passages", "path": "", "rows": 1, "bytes": 4, "checksum": "0" * 32}


def to_path(path: str) -> Change:
    return lambda manifest: manifest.update(whole=[dict(FILE, path=path)])


CHANGES: dict[str, tuple[str, Change]] = {
    "a path above the store": (MANIFEST, to_path("../.bashrc")),
    "one that becomes such": (MANIFEST, to_path("..by-a./.bashrc")),
    "an absolute path": (MANIFEST, to_path("/etc/passwd")),
    "another artifact's file": (MANIFEST, to_path("passages/0123456789abcdef/00000.parquet")),
    "inputs above the store": (MANIFEST, lambda manifest: manifest.update(inputs={"x": "../../x"})),
    "an index's artifacts": ("indexes/*.json", lambda index: index.update(artifacts={"faiss": "../../../x"})),
    "a run's id above the store": ("runs/*.json", lambda run: run.update(run_id="../../x")),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_record_that_names_what_is_outside_is_damaged(store: Path, tmp_path: Path, what: str) -> None:
    pattern, how = CHANGES[what]
    record = only(store, pattern)
    change(record, how)
    before = contents(tmp_path)
    command("gc", "--delete", "--store", str(store))
    code, output = command("copy", str(store), str(tmp_path / "inner" / "ours"))
    changed = {path for path, content in contents(tmp_path).items() if before.get(path) != content}
    assert all(path.startswith(("inner/ours/", "inner/theirs/")) for path in changed), changed
    if pattern == "runs/*.json":  # it is left out
        assert not files.find(tmp_path / "inner" / "ours", pattern)
    else:
        assert (code, f"{record} is damaged" in output) == (1, True), output


def test_a_copy_of_a_bucket_writes_nothing_outside(bucket: Path, store: Path, tmp_path: Path) -> None:
    assert command("copy", str(store), str(bucket))[0] == 0
    before = contents(tmp_path)
    for path in ("../x/.bashrc", "..by-a./x/.bashrc"):
        record = only(bucket, MANIFEST)
        change(record, to_path(path))
        code, output = command("copy", str(bucket), str(tmp_path / "inner" / "ours"))
        assert (code, f"{record} is damaged" in output) == (1, True), output
    assert all(place.startswith("inner/ours/") for place in contents(tmp_path).keys() - before.keys())


@pytest.mark.parametrize("pattern", ["passages/*/00000.parquet", "passages/*", "costs/*/*"])
def test_an_artifact_behind_a_symbolic_link_is_not_copied(store: Path, tmp_path: Path, pattern: str) -> None:
    path = only(store, pattern)
    path.rename(tmp_path / path.name)
    path.symlink_to(tmp_path / path.name)
    code, output = command("copy", str(store), str(tmp_path / "ours"))
    assert code == 1
    assert "is a symbolic link, or behind one" in output


def test_a_remedy_is_safe_to_paste(store: Path) -> None:
    (only(store, "passages/*/done") / "x;touch pwned.json").write_text("{")
    _, output = command("verify", "--store", str(store))
    assert "rm '" in output
    assert "rm /" not in output.replace("rm '/", "")
