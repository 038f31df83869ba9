"""The command that adds an extra is true for every way in which Vital Few came."""

import json
import sys
from pathlib import Path

import pytest

from vitalfew.configs.installing import install_command

GIT = {"vcs": "git", "commit_id": "0f3c", "requested_revision": "main"}


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ({"url": "file:///clone", "dir_info": {"editable": True}}, "-e '.[documents]'"),
        ({"url": "https://host/v.git", "vcs_info": GIT}, "'vitalfew[documents] @ git+https://host/v.git@0f3c'"),
        (None, "'vitalfew[documents]'"),  # from an index
    ],
)
def test_the_command_names_the_place_from_which_it_was_installed(
    source: dict | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            return json.dumps(source) if source and name == "direct_url.json" else None

    monkeypatch.setattr("vitalfew.configs.installing.distributions", lambda name: [Installed()])
    monkeypatch.setattr("os.getcwd", lambda: "/clone")
    monkeypatch.setattr(sys, "executable", "/clone/.venv/bin/python")
    assert install_command("documents") == f".venv/bin/python -m pip install {command}"


def test_an_environment_without_pip_is_filled_by_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitalfew.configs.installing.find_spec", lambda name: None)
    python = Path(sys.executable)
    monkeypatch.setattr("os.getcwd", lambda: str(python.parent))
    assert install_command("int8").startswith(f"uv pip install --python {python.name} ")
