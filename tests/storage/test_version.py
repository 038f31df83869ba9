"""The version of a store: it is written before the first artifact, and a store of another one is not touched."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.indexing import SYNTHETIC, index
from vitalfew import Store
from vitalfew.flows.cli.main import app
from vitalfew.flows.cli.operate import checkup
from vitalfew.storage import files, version
from vitalfew.storage.version import FILE, OtherVersion

COMMANDS = (
    ("index", SYNTHETIC, "--name", "new", "--runner", "serial"),
    ("plan", SYNTHETIC),
    ("search", "Who built the mill?", "--index", "test"),
    ("evaluate", "quickstart", "--index", "test"),
    ("answer", "Who built the mill?", "--index", "test"),
    ("index history", "test"),
    ("sql", "SELECT 1"),
    ("tables",),
    ("runs",),
    ("costs",),
    ("store", "ls"),
    ("store", "verify"),
    ("store", "gc", "--delete"),
    ("store", "rm", "test"),
    ("ui",),
)


def everything(store: Path) -> dict[Path, tuple[bytes, int]]:
    """Content and time of every file, and the time of every folder."""
    found = [store, *store.rglob("*")]
    return {path: (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns) for path in found}


def of_version(store: Path, number: int | None) -> None:
    files.remove(store / FILE)
    if number is not None:
        files.write_json(store / FILE, {"version": number})
    version._checked.clear()  # as in another process


@pytest.fixture
def store(tmp_path: Path) -> Path:
    index(tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize("number", [None, version.VERSION + 1])
def test_a_store_of_another_version_is_not_touched(store: Path, number: int | None, tmp_path: Path) -> None:
    of_version(store, number)
    before = everything(store)
    copying = ("store", "copy", str(store), str(tmp_path / "copy"))
    for words in (copying, *((*command, "--store", str(store)) for command in COMMANDS)):
        result = CliRunner().invoke(app, words)
        told = " ".join(result.output.split())
        assert result.exit_code == 1, words
        assert all(part in told for part in (str(store), f"reads version {version.VERSION}", "Index again")), words
    with pytest.raises(OtherVersion, match="Index again into a new store: vitalfew index … --store NEW"):
        Store(store)
    (check,) = (check for check in checkup(store) if check.what == "store")
    assert not check.fine
    assert "Index again" in check.found
    assert everything(store) == before
    assert not (tmp_path / "copy").exists()


def test_the_version_comes_first_and_is_copied(store: Path, tmp_path: Path) -> None:
    assert json.loads((store / FILE).read_text())["version"] == version.VERSION
    assert (store / FILE).stat().st_mtime_ns <= min(path.stat().st_mtime_ns for path in store.glob("*/*/stage.json"))
    copied = CliRunner().invoke(app, ["store", "copy", str(store), str(tmp_path / "copy")])
    assert copied.exit_code == 0, copied.output
    assert (tmp_path / "copy" / FILE).read_bytes() == (store / FILE).read_bytes()
    (check,) = (check for check in checkup(store) if check.what == "store")
    assert check.fine
    assert check.found.endswith(f"version {version.VERSION}")


def test_an_empty_directory_has_no_version_yet(tmp_path: Path) -> None:
    assert Store(tmp_path).indexes() == []
    assert not [*tmp_path.iterdir()]
