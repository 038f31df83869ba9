"""Which server a command uses, and with whose secret."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from tests.support.prefect_ui import PATIENCE, ROOT
from vitalfew.flows.server.access import Server, is_named, named, running
from vitalfew.flows.server.home import home, prepare
from vitalfew.storage import files


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "own")
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    prepare(tmp_path / "store")
    return tmp_path / "store"


def test_a_running_ui_s_secret_is_its_own_and_the_user_s_is_for_others(store: Path) -> None:
    ui = Server("http://127.0.0.1:4200", "fresh", 1)
    files.write_private(home(store) / "ui.json", json.dumps({"address": ui.address, "secret": "fresh", "pid": 1}))
    assert running(store) is None  # a killed one left its file
    with files.locked(home(store) / "ui.lock"):
        for url in ("http://127.0.0.1:4200/api", "http://localhost:4200/api/"):
            assert named(store, url) == ui
        assert named(store, "http://127.0.0.1:4201/api") == Server("http://127.0.0.1:4201", "own")
    assert named(store, "http://127.0.0.1:4200/api").secret == "own"
    assert "fresh" not in repr(ui)


def test_a_server_is_named_by_the_environment_a_profile_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert not is_named()
    (tmp_path / "profiles.toml").write_text(
        'active = "own"\n[profiles.own]\n[profiles.local]\nPREFECT_API_URL = "http://127.0.0.1:4200/api"\n'
    )
    assert not is_named()
    monkeypatch.setenv("PREFECT_PROFILE", "local")
    assert is_named()
    monkeypatch.setenv("PREFECT_API_URL", "")
    assert not is_named()


def asked(url: str, headers: dict[str, str]) -> int:
    """The status of a request for the flows there are, which is a POST."""
    with closing(HTTPConnection(url.split("/")[2], timeout=PATIENCE)) as connection:
        connection.request("POST", "/api/flows/filter", "{}", {"Content-Type": "application/json", **headers})
        return connection.getresponse().status


TEMPORARY = """
import os, sys
from pathlib import Path
from vitalfew.flows.server.access import connect

connect(Path("store"))
from prefect import flow

@flow
def trial():
    return None

trial()
print(os.environ["PREFECT_API_URL"], os.environ["PREFECT_API_AUTH_STRING"], flush=True)
sys.stdin.read()
"""


def answers_of_writers_at_once(server: Server) -> set[int]:
    """The statuses of requests that all write: without the patience of `flows/server/api.py`, most are 503."""

    def write(path: str, body: Any) -> Any:
        with urlopen(server.request(path, json.dumps(body).encode())) as answer:
            return answer.status, json.loads(answer.read())

    flow = write("/api/flows/", {"name": "flow"})[1]["id"]
    run = {"flow_id": flow, "state": {"type": "PENDING"}}
    with ThreadPoolExecutor(16) as threads:
        return {status for status, _ in threads.map(lambda _: write("/api/flow_runs/", run), range(32))}


@pytest.mark.slow
def test_a_temporary_server_asks_for_a_secret_and_answers_its_own_host_alone(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {"PREFECT_HOME": str(tmp_path / "prefect"), "PYTHONPATH": str(ROOT)}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command: Any = subprocess.Popen([sys.executable, "-c", TEMPORARY], env=environment, cwd=tmp_path, **pipes)
    with command:
        url, secret = command.stdout.readline().split()
        basic = f"Basic {b64encode(secret.encode()).decode()}"
        assert asked(url, {"Authorization": basic}) == 200
        assert asked(url, {}) == 401
        assert asked(url, {"Authorization": basic, "Host": "evil.example"}) == 421
        assert asked(url, {"Authorization": basic, "Origin": "http://evil.example"}) == 403
        assert answers_of_writers_at_once(Server(url.removesuffix("/api"), secret)) == {201}
        family = psutil.Process(command.pid).children(recursive=True)
        arguments = [argument for process in family for argument in process.cmdline()]
        command.kill()  # and no handler of its own is run: the server sees to its end by itself
    assert len(family) == 1
    assert not [argument for argument in arguments if secret in argument]
    assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []
