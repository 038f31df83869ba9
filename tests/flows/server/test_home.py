"""Where Prefect's home and its secrets lie."""

import os
from pathlib import Path

import pytest

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.server.home import encryption_key, home, prepare


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
    prepare(store)
    key = encryption_key(home(store))
    assert key == encryption_key(home(store))
    (file,) = holders(state, str(key))
    assert not file.is_relative_to(home(store))
    assert modes(state / "vitalfew") == {0o700, 0o600}


def test_a_home_in_the_store_is_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(store / ".prefect"))
    with pytest.raises(ConfigError, match="is in the store"):
        prepare(store)
