"""`vitalfew ui` as its users meet it: over REST, in a browser, by a schedule, and when something goes wrong."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.cli.operations import operations
from storage.runs import read_runs
from tests.support.fakes import ChatServer, Reply
from tests.support.indexing import index, sql
from tests.support.prefect_ui import ROOT, Ui, wait

FAST = ["generate.generator=tests.support.fakes:FirstWords"]
CHROMIUM = "/usr/bin/chromium"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


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
def hook() -> Iterator[ChatServer]:
    """A webhook, which is any server that takes a POST of JSON."""
    with ChatServer(lambda path, body, attempt: Reply({})) as server:
        yield server


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory, hook: ChatServer) -> Iterator[Ui]:
    folder = tmp_path_factory.mktemp("ui")
    index(folder / "store", name="demo")
    fake = ["workers: 1", "encode: {encoder: 'tests.support.fakes:HashEncoder'}", "load: {shard_passages: 20}"]
    source = passages(folder / "towns.jsonl", 60)
    corpus(folder, "towns", f"datasets: ['jsonl:{source}']", *fake, "cron: '0 3 * * *'")
    slow = "synthetic:passages=200,questions=20,seed=3"
    corpus(folder, "slow", f"datasets: ['{slow}']", *fake[::2], "encode: {encoder: 'tests.support.fakes:SlowEncoder'}")
    corpus(folder, "gone", "datasets: ['jsonl:/nowhere/gone.jsonl']", *fake)
    made = Ui(
        folder / "store",
        VITALFEW_WEBHOOK=f"{hook.url}/token-that-nobody-sees",
        VITALFEW_RETRY_SECONDS="1",
        PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS="2",
    )
    seconds = made.start()
    print(f"vitalfew ui was ready in {seconds:.1f} s")
    yield made
    if made.process.poll() is None:
        assert made.end()[1] == []


def test_a_schedule_fires_and_an_unchanged_corpus_is_left_alone(ui: Ui) -> None:
    """Nightly by its file; here it is set to every five seconds, for as long as it takes to fire."""

    def begun() -> list[Any]:
        return [run for run in ui.runs("re-encode") if run["auto_scheduled"] and run["state_type"] == "RUNNING"]

    deployment = ui.deployment("re-encode")
    (schedule,) = deployment["schedules"]
    assert (schedule["active"], schedule["schedule"]["cron"]) == (True, "0 3 * * *")
    path = f"/deployments/{deployment['id']}/schedules/{schedule['id']}"
    often = {"schedule": {"cron": "* * * * * */5", "timezone": "UTC"}, "parameters": schedule["parameters"]}
    ui.call(path, often, "PATCH")
    wait(begun, 90, lambda: ui.log("server") + ui.log("runner"))
    ui.call(path, {"active": False}, "PATCH")
    wait(lambda: not ui.working("re-encode"), 90)
    # It may have fired twice before it was stopped: one run works, another finds it at work, or all done.
    told = {
        run["id"]: ui.state(run["id"])["message"] for run in ui.runs("re-encode") if run["state_type"] == "COMPLETED"
    }
    (first,) = [run for run, message in told.items() if message == "Done: load, split, encode, index."]
    others = [message for run, message in told.items() if run != first]
    assert all(message.startswith(("Another run re-encodes towns", "Unchanged")) for message in others)
    assert sql(ui.store, "SELECT count(*) FROM passages WHERE title LIKE 'Town %'") == [(60,)]
    (table,) = [each for each in ui.artifacts(first) if each["key"] == "costs"]
    assert [row["stage"] for row in json.loads(table["data"])] == ["load", "split", "encode", "index"]
    assert "encode: done" in ui.logs(first)
    assert ui.ended(ui.run("re-encode", corpus="towns"))["message"] == "Unchanged: nothing to do."


def test_two_runs_never_overlap_and_a_cancelled_one_is_cancelled(ui: Ui) -> None:
    run = ui.run("re-encode", corpus="slow")
    encoding = lambda: any("encode:" in (each["description"] or "") for each in ui.artifacts(run))  # noqa: E731
    wait(encoding, 90, lambda: ui.logs(run))
    second = ui.ended(ui.run("re-encode", corpus="slow"))
    assert (second["type"], second["name"]) == ("COMPLETED", "Skipped")
    assert "nothing was done" in second["message"]
    working = ui.family()
    assert any("raylet" in " ".join(process.cmdline()) for process in working)
    began = time.monotonic()
    ui.call(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})
    assert ui.ended(run)["type"] == "CANCELLED"
    print(f"cancelled in {time.monotonic() - began:.1f} s")
    ended = [process for process in working if process not in ui.family()]
    assert any("raylet" in "".join(process.name()) for process in ended if process.is_running()) is False
    record = next(each for each in reversed(read_runs(ui.store)) if each.name == "slow")
    assert record.state == "cancelled", record.error
    # it goes on from its last whole shard
    made = sorted((ui.store / "sentences").glob("*/*.parquet"))
    assert made
    settings = {"encode": {"encoder": "tests.support.fakes:SlowEncoder"}}
    again = index(ui.store, "synthetic:passages=200,questions=20,seed=3", name="slow", **settings)
    assert {"load", "split"} <= again.reused


def test_a_run_that_fails_is_tried_again_and_then_tells(ui: Ui, hook: ChatServer) -> None:
    run = ui.run("re-encode", corpus="gone")
    state = ui.ended(run)
    assert state["type"] == "FAILED"
    assert "/nowhere/gone.jsonl" in state["message"]
    assert ui.call(f"/flow_runs/{run}")["run_count"] == 2
    ((path, told, _),) = wait(lambda: list(hook.asked), 20)
    assert path.endswith("/token-that-nobody-sees")
    assert (told["flow"], told["state"]) == ("re-encode", "Failed")
    assert told["parameters"]["parameters"]["corpus"] == "gone"
    assert "/nowhere/gone.jsonl" in told["message"]
    assert "token-that-nobody-sees" not in ui.logs(run) + ui.log("runner") + ui.log("server")


def test_what_is_wrong_is_refused_by_name(ui: Ui) -> None:
    status, told = ui.refused("re-encode", corpus="twons")
    assert (status, "parameters.corpus" in told, "'towns'" in told) == (409, True, True), told
    wrong = (("alpha", 2, "1"), ("experiment", "quikstart", "'quickstart'"), ("critic", "x", "judge"))
    for field, value, known in wrong:
        status, told = ui.refused("evaluate-experiment", **{field: value})
        assert (status, f"parameters.{field}" in told, known in told) == (409, True, True), told


def test_an_evaluation_over_rest(ui: Ui) -> None:
    began = time.monotonic()
    run = ui.run("evaluate-experiment", index="demo", sample=5, alpha=0.5, workers=1, more=FAST)
    wait(lambda: ui.state(run)["type"] == "RUNNING", 60)
    print(f"started after {time.monotonic() - began:.1f} s")
    assert ui.ended(run)["type"] == "COMPLETED"
    found = {each["key"]: each for each in ui.artifacts(run) if each["key"]}
    assert "| ParetoRAG |" in found["report"]["data"]
    assert str(ui.store / "reports") in found["report"]["data"]
    plots = [each for key, each in found.items() if key.startswith("plot-")]
    assert len(plots) >= 3
    assert all(each["data"].startswith("data:image/svg+xml;base64,") for each in plots)
    quoted = json.loads(found["costs"]["data"])
    assert {"stage", "USD", "quoted USD"} <= set(quoted[0])
    assert read_runs(ui.store)[-1].config["methods"][-1]["retrieve"]["alpha"] == 0.5


def test_an_evaluation_in_a_browser(ui: Ui, tmp_path: Path) -> None:
    """As a person does it: from the list of deployments to the form, a wrong value, a right one, the artifacts."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install 'vitalfew[dev]'")
    if not os.path.exists(CHROMIUM):
        pytest.skip(f"no {CHROMIUM}: apt-get install chromium")
    outside: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page(viewport={"width": 1300, "height": 1900})
        page.set_default_timeout(60_000)
        page.on("request", lambda request: outside.append(request.url))
        page.goto(f"{ui.address}/deployments")
        page.get_by_role("link", name="evaluate-experiment").first.click()
        page.wait_for_url("**/deployments/deployment/*")
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_text("Custom run").click()
        fill_form(page, tmp_path)
        run = max(ui.runs("evaluate-experiment"), key=lambda run: run["created"])["id"]
        page.goto(f"{ui.address}/runs/flow-run/{run}")
        page.get_by_text("Completed", exact=True).first.wait_for()
        page.get_by_text("ask: done").first.wait_for()
        page.screenshot(path=tmp_path / "run.png")
        page.get_by_text("Artifacts", exact=True).click()
        page.get_by_role("link", name="report").first.wait_for()
        page.screenshot(path=tmp_path / "artifacts.png")
        look_at_artifacts(page, ui, run, tmp_path)
        browser.close()
    assert [url for url in outside if not url.startswith((ui.address, "data:", "blob:"))] == []
    retrieve = read_runs(ui.store)[-1].config["methods"][-1]["retrieve"]
    assert (retrieve["alpha"], retrieve["top_k"]) == (0.3, 10)
    print(f"screenshots: {tmp_path}")


def fill_form(page: Any, folder: Path) -> None:
    def field(name: str) -> Any:
        label = page.get_by_text(f"{name} (Optional)", exact=True)
        return page.locator(".p-label", has=label).last.locator("input, textarea").last

    page.get_by_text("Retriever (Optional)").wait_for()
    page.get_by_text("Weight of the core vector, 0 to 1.").wait_for()
    field("Index").fill("demo")
    field("Sample").fill("6")
    page.get_by_text("Add item").click()
    field("More").fill(FAST[0])
    field("Alpha").fill("2")
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("Validation failed for field 'parameters.alpha'").first.wait_for()
    page.screenshot(path=folder / "refused.png")
    field("Alpha").fill("0.3")
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("button", name="View run").first.wait_for()


def look_at_artifacts(page: Any, ui: Ui, run: str, folder: Path) -> None:
    for artifact in ui.artifacts(run):
        if artifact["key"] in ("report", "costs", "plot-accuracy-against-prompt-tokens"):
            page.goto(f"{ui.address}/artifacts/artifact/{artifact['id']}")
            shown = {"image": "img[src^='data:image/svg']", "table": "td", "markdown": "td"}[artifact["type"]]
            page.locator(shown).first.wait_for()
            page.screenshot(path=folder / f"{artifact['key']}.png")
            if artifact["type"] == "image":
                assert page.locator(shown).first.evaluate("image => image.naturalWidth") > 100


def test_a_second_ui_and_a_port_that_is_taken(ui: Ui, tmp_path: Path) -> None:
    told = subprocess.run(ui.command(), cwd=ROOT, env=ui.environment, capture_output=True, text=True)
    assert told.returncode == 1
    assert f"runs already at {ui.address} (process {ui.process.pid})" in told.stderr.replace("\n", " ")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = Ui(tmp_path / "store", port=other.getsockname()[1])
        told = subprocess.run(taken.command(), cwd=ROOT, env=taken.environment, capture_output=True, text=True)
    assert told.returncode == 1
    assert f"port {taken.port}" in told.stderr
    assert f"--port {taken.port + 1}" in told.stderr
    assert "Traceback" not in told.stderr


def test_doctor_finds_the_server(ui: Ui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    checks = {check.what: check for check in operations(ui.store)}
    assert checks["Prefect server"].found == f"{ui.address} answers"
    assert "prefect work-pool create vitalfew" in checks["work pool"].found
    assert "0 3 * * *" in checks["corpus towns"].found
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setenv("VITALFEW_WEBHOOK", "https://hooks.example/secret")
    checks = {check.what: check for check in operations(tmp_path)}
    assert "http://127.0.0.1:9 does not answer" in checks["Prefect server"].found
    assert not checks["Prefect server"].fine
    assert checks["webhook"].found == "hooks.example"


def test_a_server_that_dies_in_mid_run(ui: Ui) -> None:
    run = ui.run("evaluate-experiment", index="demo", sample=7, workers=1, more=FAST)
    wait(lambda: ui.state(run)["type"] == "RUNNING", 60)
    family = ui.family()
    server = next(process for process in family if "server" in process.cmdline())
    server.kill()
    told = ui.process.communicate(timeout=60)[1]
    assert ui.process.returncode == 1
    assert "the server ended (status -9)" in told.replace("\n", " ")
    assert "start `vitalfew ui`" in told.replace("\n", " ")
    assert psutil.wait_procs(family, timeout=5)[1] == []
    # what was lost is told of, and the same run comes to its end
    ui.start()
    assert ui.state(run)["type"] == "CRASHED"
    assert ui.deployment("re-encode")["paused"] is False
    again = ui.run("evaluate-experiment", index="demo", sample=7, workers=1, more=FAST)
    wait(lambda: ui.state(again)["type"] == "RUNNING", 60)
    told, left = ui.end(signal.SIGINT)
    assert "Stopped" in told
    assert left == []
    with sqlite3.connect(ui.store / ".prefect" / "prefect.db") as database:
        states = dict(database.execute("SELECT id, state_type FROM flow_run"))
        paused = database.execute("SELECT DISTINCT paused FROM deployment").fetchall()
    assert (states[run], states[again], paused) == ("CRASHED", "CANCELLED", [(1,)])
