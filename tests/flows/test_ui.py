"""`vitalfew ui` as its users meet it: over REST, by a schedule, and when something goes wrong."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from prefect.context import refresh_global_settings_context
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect as websocket
from websockets.typing import Origin, Subprotocol

from tests.support.fakes import ChatServer
from tests.support.indexing import index, reused, sql
from tests.support.prefect_ui import PATIENCE, ROOT, Ui, wait
from vitalfew.flows.server.deployed import NEVER_BEGAN, Deployed, NoFlowRun, StartRefused
from vitalfew.storage.catalog.database import QueryError
from vitalfew.storage.runs import read_runs

pytestmark = pytest.mark.slow

SLOW, LOST = (f"synthetic:passages=200,questions=20,seed={seed}" for seed in (3, 4))


def corpus(folder: Path, name: str, *lines: str) -> Path:
    (folder / "corpora").mkdir(exist_ok=True)
    path = folder / "corpora" / f"{name}.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def passages(path: Path, count: int) -> Path:
    rows = ({"title": f"Town {n}", "text": f"Town {n} has a mill. It was built in {1700 + n}."} for n in range(count))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def hold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file is there, runs of the corpora `slow` and `lost` halt in the middle."""
    return tmp_path_factory.mktemp("hold") / "hold"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, hook: ChatServer, hold: Path) -> Iterator[Ui]:
    """A store with its `vitalfew ui`, which is ready in about 12 s and so shared by the tests."""
    folder = tmp_path_factory.mktemp("ui")
    fake = ["workers: 1", "encode: {encoder: 'tests.support.fakes:HashEncoder'}", "load: {shard_passages: 20}"]
    fake.append("bm25: {enabled: false}")
    source = passages(folder / "towns.jsonl", 60)
    corpus(folder, "towns", f"datasets: ['jsonl:{source}']", *fake, "cron: '0 3 * * *'")
    held = "encode: {encoder: 'tests.support.fakes:HeldEncoder'}"
    for name, dataset in (("slow", SLOW), ("lost", LOST)):
        corpus(folder, name, f"datasets: ['{dataset}']", *fake[::2], held)
    corpus(folder, "gone", "datasets: ['jsonl:/nowhere/gone.jsonl']", *fake)
    made = Ui(
        folder / "store",
        VITALFEW_WEBHOOK=f"{hook.url}/token-that-nobody-sees",
        VITALFEW_RETRY_SECONDS="1",
        VITALFEW_TEST_HOLD=str(hold),
        PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS="2",
    )
    yield made
    if made.works():
        assert made.end()[1] == []


@pytest.fixture
def ui(served: Ui, hold: Path) -> Iterator[Ui]:
    """It works, and nothing is at work in it: neither before a test nor after."""
    hold.unlink(missing_ok=True)
    if not served.works():
        served.start()
    yield served
    if served.works():
        served.settle()


def test_a_schedule_fires_and_an_unchanged_corpus_is_left_alone(ui: Ui) -> None:
    """Nightly by its file; here it is set to every five seconds, for as long as it takes to fire."""

    def begun() -> list[Any]:
        return [run for run in ui.runs("re-encode") if run["auto_scheduled"] and run["state_type"] == "RUNNING"]

    deployment = ui.deployment("re-encode")
    (schedule,) = deployment["schedules"]
    assert (schedule["active"], schedule["schedule"]["cron"]) == (True, "0 3 * * *")
    path = f"/deployments/{deployment['id']}/schedules/{schedule['id']}"
    often = {"schedule": {"cron": "* * * * * */5", "timezone": "UTC"}, "parameters": schedule["parameters"]}
    try:
        ui.call(path, often, "PATCH")
        wait(begun, lambda: ui.log("server") + ui.log("runner"))
    finally:
        ui.call(path, {"active": False}, "PATCH")

    def stopped() -> bool:
        ui.drop_waiting()
        return not ui.unfinished()

    wait(stopped, lambda: f"{ui.unfinished()} {ui.log('runner')}")
    # It may have fired more than once before it was stopped: one run works, others find it at work, or all done.
    scheduled = [run for run in ui.runs("re-encode") if run["auto_scheduled"]]
    assert {run["state_type"] for run in scheduled} == {"COMPLETED"}, [run["state"]["message"] for run in scheduled]
    told = {run["id"]: run["state"]["message"] for run in scheduled}
    (first,) = [run for run, message in told.items() if message.startswith("Done: load, split, encode, index. ")]
    assert sql(ui.store, "SELECT count(*) FROM passages WHERE title LIKE 'Town %'") == [(60,)]
    # It has another one if it made up for those that found it at work.
    (table,) = [each for each in ui.artifacts(first) if each["key"] == "costs" and "this run" in each["data"]]
    assert [row["stage"] for row in json.loads(table["data"])] == ["load", "split", "encode", "index"]
    ui.logged(first, "encode: done")
    follow_start_and_cancel(ui, first)


def follow_start_and_cancel(ui: Ui, done: str) -> None:
    """As the page Corpora and indexes does it, of a corpus that has not changed since a run that is done."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in {
            "HOME": ui.home,
            "API_URL": f"{ui.address}/api",
            "SERVER_API_AUTH_STRING": ui.secret,
        }.items():
            monkeypatch.setenv(f"PREFECT_{name}", str(value))
        refresh_global_settings_context()
        deployed = Deployed(ui.store)
        assert any("encode" in line for _, line in deployed.follow(done).stages)
        assert any("encode: done" in line for line in deployed.follow(done).log)
        run = deployed.start("re-encode", {"corpus": "towns"})
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        planned = deployed.start("re-encode", {"corpus": "towns"}, tomorrow)
        (waiting,) = [each for each in deployed.planned() if each.id == planned]
        assert (waiting.about, waiting.flow) == ("towns", "re-encode")
        assert abs((deployed.follow(planned).run.due or datetime.now(UTC)) - tomorrow) < timedelta(seconds=1)
        deployed.cancel(planned)
        cancelled = deployed.follow(planned).run
        assert (cancelled.kind, cancelled.message) == ("cancelled", NEVER_BEGAN)
        assert planned not in [each.id for each in deployed.planned()]
        wait(lambda: deployed.follow(run).run.is_final, lambda: ui.log("runner"))
        ended = deployed.follow(run).run
        assert (ended.kind, ended.flow, ended.about) == ("completed", "re-encode", "towns")
        assert ui.state(run)["message"] == "Unchanged: nothing to do."
        assert run in [each.id for each in deployed.recent()]
        with pytest.raises(StartRefused, match=r"Prefect refused it: .*parameters\.alpha"):
            deployed.start("evaluate", {"alpha": 2})
        for unknown in ("00000000-0000-0000-0000-000000000000", "latest"):
            with pytest.raises(NoFlowRun):
                deployed.follow(unknown)
        assert ui.secret not in ui.log("server") + repr(deployed)
    refresh_global_settings_context()


def halted(ui: Ui, corpus: str, hold: Path) -> str:
    """A run that has encoded some shards of a corpus, and works on the next."""
    hold.touch()
    run = ui.run("re-encode", corpus=corpus)
    wait(lambda: hold.read_text() == "held", lambda: f"{ui.state(run)} {ui.log('runner')}")
    return run


def test_two_runs_never_overlap_and_a_cancelled_one_is_cancelled(ui: Ui, hold: Path) -> None:
    run = halted(ui, "slow", hold)
    encoding = lambda: any("encode:" in (each["description"] or "") for each in ui.artifacts(run))  # noqa: E731
    wait(encoding, lambda: f"{ui.artifacts(run)}")
    second = ui.ended(ui.run("re-encode", corpus="slow"))
    assert (second["type"], second["name"]) == ("COMPLETED", "Skipped")
    assert "this run did nothing" in second["message"]
    rays = [process for process in ui.family() if process.name().startswith(("raylet", "gcs_server", "ray::"))]
    assert any(process.name() == "raylet" for process in rays)
    assert "Started a local Ray instance" not in ui.log("runner")  # by itself, with settings that are not ours
    ui.cancel(run)
    assert ui.ended(run)["type"] == "CANCELLED"
    assert psutil.wait_procs(rays, timeout=PATIENCE)[1] == []
    record = next(each for each in reversed(read_runs(ui.store)) if each.name == "slow")
    assert record.state == "cancelled", record.error
    # it goes on from its last whole shard
    again = index(ui.store, SLOW, name="slow", **{"encode": {"encoder": "tests.support.fakes:HeldEncoder"}})
    assert {"load", "split"} <= reused(again)
    (encoded,) = [manifest for manifest in again.manifests if manifest.stage == "encode"]
    assert {shard.run_id for shard in encoded.shards} == {record.run_id, again.run.run_id}


def test_a_cancellation_within_a_destructor_is_heard() -> None:
    """Python lets no destructor raise: what Prefect's handler of SIGTERM raises there would be lost."""
    script = """
import os, signal, time
from prefect.exceptions import TerminationSignal
from prefect.utilities.engine import capture_sigterm
import vitalfew.flows.execute

class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

with capture_sigterm():
    try:
        Last()
        print("it went on", flush=True)
        time.sleep(60)
    except TerminationSignal:
        print("heard", flush=True)
"""
    told = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert told.stdout.splitlines() == ["it went on", "heard"], told.stderr


def test_a_run_that_fails_is_tried_again_and_then_tells(ui: Ui, hook: ChatServer) -> None:
    run = ui.run("re-encode", corpus="gone")
    state = ui.ended(run)
    assert state["type"] == "FAILED"
    assert state["message"].startswith("Corpus: /nowhere/gone.jsonl does not exist")
    assert ui.call(f"/flow_runs/{run}")["run_count"] == 2
    ui.logged(run, "Sent to the webhook")
    ui.logged(run, "Finished in state Failed")
    assert "Traceback" not in ui.logs(run)
    ((path, told, _),) = [asked for asked in hook.asked if asked[1]["run_id"] == run]
    assert path.endswith("/token-that-nobody-sees")
    assert (told["flow"], told["state"]) == ("re-encode", "Failed")
    assert told["parameters"]["parameters"]["corpus"] == "gone"
    assert "/nowhere/gone.jsonl" in told["message"]
    assert "token-that-nobody-sees" not in ui.logs(run) + ui.log("runner") + ui.log("server")


def strangers(ui: Ui) -> Iterator[tuple[int, dict[str, str]]]:
    """The headers of those who may not come in, and the status that refuses them."""
    evil, host, own = "http://evil.example", f"127.0.0.1:{ui.port}", {"Authorization": ui.authorization}
    yield 401, {}
    yield 401, {"Origin": ui.address}
    yield 401, {"Authorization": "Basic Z3Vlc3NlZA=="}
    for secret in ({}, own):
        yield 421, {"Host": f"evil.example:{ui.port}", "Origin": f"{evil}:{ui.port}", **secret}  # DNS rebinding
        yield 421, {"Host": "127.0.0.1:1", **secret}
        yield 403, {"Host": host, "Origin": evil, **secret}
        yield 403, {"Host": host, "Origin": "null", **secret}


def test_a_stranger_changes_nothing(ui: Ui, tmp_path: Path) -> None:
    """A shell command as the step of a deployment, and posts without a body, which need no permission beforehand."""
    command = {"prefect.deployments.steps.run_shell_script": {"script": f"touch {tmp_path}/evil"}}
    before = ui.deployment("train")
    deployed = f"/api/deployments/{before['id']}"
    for status, headers in strangers(ui):
        assert ui.answer("PATCH", deployed, {"pull_steps": [command]}, **headers) == status
        assert ui.answer("POST", f"{deployed}/create_flow_run", {}, **headers) == status
        assert ui.answer("POST", f"{deployed}/pause_deployment", **headers) == status
        assert ui.answer("POST", f"{deployed}/resume_deployment", **headers) == status
        # what is only read by a page of another origin, its browser keeps from it
        reads = 200 if (status, headers.get("Authorization")) == (403, ui.authorization) else status
        assert ui.answer("GET", deployed, **headers) in (reads, 401)
    after = ui.deployment("train")
    kept = ("pull_steps", "paused", "parameters", "entrypoint", "updated")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert ui.runs("train") == []
    own = {"Authorization": ui.authorization, "Origin": ui.address.replace("127.0.0.1", "localhost")}
    assert ui.answer("POST", f"{deployed}/pause_deployment", **own) == 200
    assert ui.answer("POST", f"{deployed}/resume_deployment", **own) == 200
    assert ui.answer("GET", "/api/health") == 200


@pytest.mark.parametrize("path", ["events/out", "logs/out", "work_pools/a/workers/connect"])
def test_a_stranger_hears_nothing(ui: Ui, path: str) -> None:
    url, subprotocols = f"ws://127.0.0.1:{ui.port}/api/{path}", [Subprotocol("prefect")]
    for origin in ("http://evil.example", f"http://evil.example:{ui.port}", "null"):
        with pytest.raises(InvalidStatus, match="403"):
            websocket(url, origin=Origin(origin), subprotocols=subprotocols)
    with socket.create_connection(("127.0.0.1", ui.port)) as rebound, pytest.raises(InvalidStatus, match="403"):
        websocket(url.replace("127.0.0.1", "evil.example"), sock=rebound, subprotocols=subprotocols)
    for secret in (None, "", "guessed"):
        with websocket(url, subprotocols=subprotocols) as connection:
            connection.send(json.dumps({"type": "auth", "token": secret}))
            with pytest.raises(ConnectionClosed):
                connection.recv(PATIENCE)
    with websocket(url, origin=Origin(ui.address), subprotocols=subprotocols) as connection:
        connection.send(json.dumps({"type": "auth", "token": ui.secret}))
        assert json.loads(connection.recv(PATIENCE))["type"] == "auth_success"


def holders(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_nothing_secret_lies_in_the_store_or_opens_by_the_database_alone(ui: Ui) -> None:
    script = "from prefect.blocks.system import Secret; Secret(value='sk-very-secret').save('a-key', overwrite=True)"
    shell = f'. {ui.home}/client.env && {sys.executable} -c "{script}"'
    done = subprocess.run(["sh", "-c", shell], env=ui.environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (block,) = ui.call("/block_documents/filter", {"include_secrets": True})
    assert block["data"]["value"] == "sk-very-secret"
    key = next((ui.state_home / "vitalfew" / "keys").iterdir()).read_text()
    assert holders(ui.state_home, "sk-very-secret") == []
    assert holders(ui.home, key) == []
    assert {path.name for path in holders(ui.home, ui.secret)} == {"ui.json", "client.env"}
    for secret in (key, ui.secret, "sk-very-secret"):
        assert holders(ui.store, secret) == []
    arguments = [argument for process in ui.family() for argument in process.cmdline()]
    assert not [argument for argument in arguments if key in argument or ui.secret in argument]
    with pytest.raises(QueryError, match="Permission"):
        sql(ui.store, f"SELECT * FROM read_text('{ui.home}/ui.json')")


def test_a_second_ui_and_a_port_that_is_taken(ui: Ui, tmp_path: Path) -> None:
    told = subprocess.run(ui.command(), cwd=ROOT, env=ui.environment, capture_output=True, text=True)
    assert told.returncode == 1
    assert f"is already running at {ui.address} (process {ui.process.pid})" in told.stderr.replace("\n", " ")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = Ui(tmp_path / "store", port=other.getsockname()[1])
        told = subprocess.run(taken.command(), cwd=ROOT, env=taken.environment, capture_output=True, text=True)
    assert told.returncode == 1
    assert f"port {taken.port}" in told.stderr
    assert f"--port {taken.port + 1}" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_server_that_dies_in_mid_run(ui: Ui, hold: Path) -> None:
    run = halted(ui, "lost", hold)
    family = ui.family()
    server = next(process for process in family if "vitalfew.pages" in process.cmdline())
    server.kill()
    told = ui.process.communicate(timeout=PATIENCE)[1]
    assert ui.process.returncode == 1
    assert "the server ended (status -9)" in told.replace("\n", " ")
    assert "start `vitalfew ui`" in told.replace("\n", " ")
    assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []
    # what was lost is told of, and the same run can be started again; it is cancelled while Ray still starts
    ui.start()
    assert ui.state(run)["type"] == "CRASHED"
    assert ui.deployment("re-encode")["paused"] is False
    again = ui.run("re-encode", corpus="lost")
    ui.begun(again)
    told, left = ui.end(signal.SIGINT)
    assert "Stopped" in told
    assert left == []
    states, paused = recorded(ui)
    assert (states[run], states[again], paused) == ("CRASHED", "CANCELLED", {1})


def recorded(ui: Ui) -> tuple[dict[str, str], set[int]]:
    """Of one that has ended: the states of its runs, and whether its deployments are paused."""
    with closing(sqlite3.connect(ui.home / "prefect.db")) as database:
        states = dict(database.execute("SELECT id, state_type FROM flow_run"))
        return states, {paused for (paused,) in database.execute("SELECT paused FROM deployment")}
