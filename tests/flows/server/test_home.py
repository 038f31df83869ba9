"""Where Prefect's home and its secrets lie, and how an earlier version's store is rid of them."""

import errno
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.cli.doctor import operations
from vitalfew.flows.server.home import encryption_key, home, prepare
from vitalfew.storage import files

KEY = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3I="


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def old(store: Path) -> Path:
    """An earlier version's home, readable by everybody, with the key beside the secret."""
    (store / ".prefect" / "storage").mkdir(parents=True, mode=0o755)
    database = store / ".prefect" / "prefect.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE configuration (key TEXT, value JSON)")
        connection.execute("CREATE TABLE block_document (name TEXT, data TEXT)")
        row = ("ENCRYPTION_KEY", json.dumps({"fernet_key": KEY}))
        connection.execute("INSERT INTO configuration VALUES (?, ?)", row)
        connection.execute("INSERT INTO block_document VALUES ('openai-api-key', 'encrypted')")
        connection.commit()
    database.chmod(0o644)
    (store / ".prefect" / "server.log").write_text("")
    return store / ".prefect"


def holders(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")]}


def test_it_is_the_store_s_own_in_the_user_s_state_directory(
    tmp_path: Path, store: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert home(store).parent == state / "vitalfew"
    assert home(store).name.startswith("store-")
    assert home(tmp_path / "other" / "store") != home(store)
    (tmp_path / "link").symlink_to(store)
    monkeypatch.chdir(tmp_path)
    assert home(tmp_path / "link") == home(Path("store")) == home(store)
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # is to be ignored
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home(store).parent == tmp_path / ".local" / "state" / "vitalfew"
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "own"))
    assert home(store) == tmp_path / "own"


def test_a_new_home_is_closed_to_others_and_its_key_lies_elsewhere(store: Path, state: Path) -> None:
    assert prepare(store) is None
    key = encryption_key(home(store))
    assert key == encryption_key(home(store))
    (file,) = holders(state, str(key))
    assert not file.is_relative_to(home(store))
    assert modes(state / "vitalfew") == {0o700, 0o600}


def test_an_earlier_version_s_home_is_moved_with_its_history_but_the_key(store: Path, old: Path, state: Path) -> None:
    (check,) = [check for check in operations(store) if check.what == "secrets"]
    assert str(old) in check.found
    told = str(prepare(store))
    assert str(old) in told
    assert str(home(store)) in told
    assert not old.exists()
    assert encryption_key(home(store)) == KEY
    assert holders(home(store), KEY) == []
    assert modes(state / "vitalfew") == {0o700, 0o600}
    with closing(sqlite3.connect(home(store) / "prefect.db")) as connection:
        assert connection.execute("SELECT * FROM block_document").fetchall() == [("openai-api-key", "encrypted")]
    assert prepare(store) is None
    assert encryption_key(home(store)) == KEY
    assert not [check for check in operations(store) if check.what == "secrets"]


def test_it_is_copied_to_another_disk(store: Path, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        if source == old:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target)

    rename = os.rename
    monkeypatch.setattr(os, "rename", refuse)
    prepare(store)
    assert encryption_key(home(store)) == KEY
    assert modes(home(store)) == {0o700, 0o600}
    assert not old.exists()


def test_nothing_is_moved_over_another_home_or_under_a_running_service(store: Path, old: Path) -> None:
    with files.locked(old / "ui.lock"), pytest.raises(ConfigError, match="stop it with Ctrl-C"):
        prepare(store)
    assert (old / "prefect.db").exists()
    files.make_private_folder(home(store))
    assert "remove it (rm -r) before you publish the store" in str(prepare(store))
    assert (old / "prefect.db").exists()


def test_the_user_s_own_home_is_the_user_s_affair_but_not_in_the_store(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "own"))
    assert prepare(store) is None
    assert encryption_key(home(store)) is None
    monkeypatch.setenv("PREFECT_HOME", str(store / ".prefect"))
    with pytest.raises(ConfigError, match="is in the store"):
        prepare(store)
