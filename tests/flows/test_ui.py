"""`vitalfew ui` as its users meet it: over REST, in a browser, by a schedule, and when something goes wrong."""

import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect as websocket
from websockets.typing import Origin, Subprotocol

from tests.support.browser import chromium
from tests.support.fakes import ChatServer, Reply
from tests.support.indexing import index, reused, sql
from tests.support.prefect_ui import ROOT, Ui, wait
from vitalfew.flows.cli.doctor import operations
from vitalfew.storage.catalog.database import QueryError
from vitalfew.storage.runs import read_runs, remove_index

pytestmark = pytest.mark.slow

FAST = ["generate.generator=tests.support.fakes:FirstWords"]
SLOW, LOST, LINE, BUSY = (f"synthetic:passages=200,questions=20,seed={seed}" for seed in (3, 4, 5, 6))


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
def hold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file is there, runs of the corpora `slow`, `lost` and `busy` halt in the middle."""
    return tmp_path_factory.mktemp("hold") / "hold"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, hook: ChatServer, hold: Path) -> Iterator[Ui]:
    """A store with its `vitalfew ui`, which is ready in about 12 s and so shared by the tests."""
    folder = tmp_path_factory.mktemp("ui")
    index(folder / "store", name="demo")
    fake = ["workers: 1", "encode: {encoder: 'tests.support.fakes:HashEncoder'}", "load: {shard_passages: 20}"]
    source = passages(folder / "towns.jsonl", 60)
    corpus(folder, "towns", f"datasets: ['jsonl:{source}']", *fake, "cron: '0 3 * * *'")
    held = "encode: {encoder: 'tests.support.fakes:HeldEncoder'}"
    for name, dataset in (("slow", SLOW), ("lost", LOST), ("busy", BUSY)):
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
        print(f"vitalfew ui was ready in {served.start():.1f} s")
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
        wait(begun, 120, lambda: ui.log("server") + ui.log("runner"))
    finally:
        ui.call(path, {"active": False}, "PATCH")

    def stopped() -> bool:
        ui.drop_waiting()
        return not ui.unfinished()

    wait(stopped, 180, lambda: f"{ui.unfinished()} {ui.log('runner')}")
    # It may have fired more than once before it was stopped: one run works, others find it at work, or all done.
    scheduled = [run for run in ui.runs("re-encode") if run["auto_scheduled"]]
    assert {run["state_type"] for run in scheduled} == {"COMPLETED"}
    told = {run["id"]: run["state"]["message"] for run in scheduled}
    (first,) = [
        run
        for run, message in told.items()
        if message.startswith("Done: load, split, encode, index. towns stands for generation 1 (")
    ]
    others = [message for run, message in told.items() if run != first]
    assert all(message.startswith(("Another run is re-encoding towns", "Unchanged")) for message in others)
    assert sql(ui.store, "SELECT count(*) FROM passages WHERE title LIKE 'Town %'") == [(60,)]
    (table,) = [each for each in ui.artifacts(first) if each["key"] == "costs"]
    assert [row["stage"] for row in json.loads(table["data"])] == ["load", "split", "encode", "index"]
    ui.logged(first, "encode: done")
    assert ui.ended(ui.run("re-encode", corpus="towns"))["message"] == "Unchanged: nothing to do."
    assert "Started a local Ray instance" not in ui.log("runner")  # by itself, with settings that are not ours


def halted(ui: Ui, corpus: str, hold: Path) -> str:
    """A run that has encoded some shards of a corpus, and works on the next."""
    hold.touch()
    run = ui.run("re-encode", corpus=corpus)
    wait(lambda: hold.read_text() == "held", 120, lambda: f"{ui.state(run)} {ui.log('runner')}")
    return run


def test_two_runs_never_overlap_and_a_cancelled_one_is_cancelled(ui: Ui, hold: Path) -> None:
    run = halted(ui, "slow", hold)
    encoding = lambda: any("encode:" in (each["description"] or "") for each in ui.artifacts(run))  # noqa: E731
    wait(encoding, 30, lambda: f"{ui.artifacts(run)}")
    second = ui.ended(ui.run("re-encode", corpus="slow"))
    assert (second["type"], second["name"]) == ("COMPLETED", "Skipped")
    assert "this run did nothing" in second["message"]
    rays = [process for process in ui.family() if process.name().startswith(("raylet", "gcs_server", "ray::"))]
    assert any(process.name() == "raylet" for process in rays)
    began = time.monotonic()
    ui.cancel(run)
    assert ui.ended(run)["type"] == "CANCELLED"
    print(f"cancelled in {time.monotonic() - began:.1f} s")
    assert psutil.wait_procs(rays, timeout=10)[1] == []
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


def test_what_is_wrong_is_refused_by_name(ui: Ui) -> None:
    status, told = ui.refused("re-encode", corpus="twons")
    assert (status, "parameters.corpus" in told, "'towns'" in told) == (409, True, True), told
    wrong = (("alpha", 2, "1"), ("experiment", "quikstart", "'quickstart'"), ("critic", "x", "judge"))
    for field, value, known in wrong:
        status, told = ui.refused("evaluate", **{field: value})
        assert (status, f"parameters.{field}" in told, known in told) == (409, True, True), told


def test_errors_of_a_run_are_a_sentence_in_the_words_of_the_form(ui: Ui) -> None:
    missing = "/nowhere/a.jsonl does not exist"
    wrong: dict[str, tuple[str, dict[str, Any]]] = {
        f"Questions: {missing}": ("evaluate", {"index": "demo", "questions": "jsonl:/nowhere/a.jsonl"}),
        "More: nonsense: write key.path=value": ("evaluate", {"index": "demo", "more": ["nonsense"]}),
        f"Sources: {missing}": ("index-corpus", {"name": "x", "sources": [{"format": "jsonl", "path": missing[:16]}]}),
    }
    runs = {message: ui.run(flow, **given) for message, (flow, given) in wrong.items()}
    for message, run in runs.items():
        state = ui.ended(run)
        assert (state["type"], state["message"].startswith(message)) == ("FAILED", True), state
        ui.logged(run, message)
        assert "Traceback" not in ui.logs(run)
        assert "\n" not in state["message"]


def test_a_second_run_of_a_corpus_says_that_it_waits_for_the_first(ui: Ui, hold: Path) -> None:
    first = halted(ui, "busy", hold)
    sources = [{"format": "synthetic", "path": BUSY.partition(":")[2]}]
    more = ["encode.encoder=tests.support.fakes:HeldEncoder", "load.shard_passages=20"]
    second = ui.run("index-corpus", name="also-busy", sources=sources, workers=1, more=more)
    ui.begun(second)
    ui.logged(second, "encode: waits for the run busy (")
    assert any("waits for the run busy (" in (each["description"] or "") for each in ui.artifacts(second))
    hold.unlink()
    assert ui.ended(first)["type"] == ui.ended(second)["type"] == "COMPLETED"


def test_a_cron_that_is_added_counts_while_it_runs(ui: Ui) -> None:
    def crons() -> set[str]:
        return {schedule["schedule"]["cron"] for schedule in ui.deployment("re-encode")["schedules"]}

    before = crons()
    path = corpus(ui.store.parent, "added", "datasets: [synthetic]", "cron: '30 4 1 1 *'")
    wait(lambda: crons() == before | {"30 4 1 1 *"}, 60, lambda: ui.log("runner"))
    path.unlink()
    wait(lambda: crons() == before, 60, lambda: ui.log("runner"))


def test_an_evaluation_over_rest(ui: Ui) -> None:
    run = ui.run("evaluate", index="demo", sample=5, alpha=0.5, workers=1, more=FAST)
    assert ui.ended(run)["type"] == "COMPLETED"
    found = {each["key"]: each for each in ui.artifacts(run) if each["key"]}
    assert r"| ParetoRAG \(late\) |" in found["report"]["data"]
    assert str(ui.store / "reports") in found["report"]["data"]
    plots = [each for key, each in found.items() if key.startswith("plot-")]
    assert len(plots) >= 3
    assert all(each["type"] == "markdown" for each in plots)  # of an image, Prefect prints the address below it
    assert all(re.match(r"!\[.+\]\(data:image/svg\+xml;base64,[\w+/=]+\)$", each["data"]) for each in plots)
    quoted = json.loads(found["costs"]["data"])
    assert {"stage", "USD", "quoted USD"} <= set(quoted[0])
    assert asked_of_paretorag(ui)["alpha"] == 0.5


def asked_of_paretorag(ui: Ui) -> dict[str, Any]:
    """What the newest run's ParetoRAG retrieved by."""
    methods = {each["name"]: each for each in read_runs(ui.store)[-1].config["methods"]}
    retrieve: dict[str, Any] = methods["ParetoRAG"]["retrieve"]
    return retrieve


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


SOCKETS = ["events/out", "events/in", "logs/out", "task_runs/subscriptions/scheduled", "work_pools/a/workers/connect"]


@pytest.mark.parametrize("path", SOCKETS)
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
                connection.recv(30)
    with websocket(url, origin=Origin(ui.address), subprotocols=subprotocols) as connection:
        connection.send(json.dumps({"type": "auth", "token": ui.secret}))
        assert json.loads(connection.recv(30))["type"] == "auth_success"


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
    files = [path for path in ui.state_home.rglob("*") if path.is_file() and path.stat().st_size]
    assert {path.name: path.stat().st_mode & 0o077 for path in files} == {path.name: 0 for path in files}
    folders = (ui.state_home / "vitalfew", ui.home, ui.state_home / "vitalfew" / "keys")
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
    with pytest.raises(QueryError, match="Permission"):
        sql(ui.store, f"SELECT * FROM read_text('{ui.home}/ui.json')")


def test_a_run_of_the_command_line_appears_there_by_its_address_alone(ui: Ui) -> None:
    named = {**ui.environment, "PREFECT_API_URL": f"{ui.address}/api", "PREFECT_API_AUTH_STRING": "of an earlier start"}
    command = [sys.executable, "-m", "vitalfew.flows.cli", "index", LINE, "--name", "line", "--store", str(ui.store)]
    fake = ["--workers", "1", "--set", "encode.encoder=tests.support.fakes:HashEncoder"]
    before = {run["id"] for run in ui.runs("index-corpus")}
    done = subprocess.run([*command, *fake], env=named, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [run["state_type"] for run in ui.runs("index-corpus") if run["id"] not in before] == ["COMPLETED"]


def test_a_link_opens_both_versions_of_the_interface_once_and_no_address_has_the_secret(ui: Ui) -> None:
    again = [*ui.command(), "--link"]
    told = subprocess.run(again, env=ui.environment, cwd=ROOT, capture_output=True, text=True, check=True)
    link = told.stdout.strip()
    visited: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(90_000)
        page.on("framenavigated", lambda frame: visited.append(frame.url))
        page.goto(f"{ui.address}/deployments")
        page.get_by_role("button", name="Login").wait_for()
        page.goto(f"{ui.address}/start#of-an-earlier-start")
        page.get_by_text("run `vitalfew ui --link`").wait_for()
        page.goto("about:blank")
        page.goto(link)
        page.get_by_role("heading", name="Ask").wait_for()
        page.goto("about:blank")
        page.goto(link)  # a second time: this browser is in
        page.get_by_role("heading", name="Ask").wait_for()
        assert not [url for url in visited if ui.secret in url or ui.authorization.split()[1] in url]
        other = browser.new_context().new_page()
        other.goto(link)
        other.get_by_text("This link was used").wait_for(timeout=90_000)
        for path in ("/deployments", "/v2/deployments"):
            page.goto(f"{ui.address}{path}")
            page.get_by_role("link", name="evaluate").first.wait_for()
            page.get_by_role("link", name="Vital Few").click()
            page.get_by_role("heading", name="Ask").wait_for()
        other.goto(f"{ui.address}/vitalfew/")
        other.get_by_text("This browser has no access").wait_for()


def test_an_evaluation_in_a_browser(ui: Ui, tmp_path: Path) -> None:
    """As a person does it: from the list of deployments to the form, a wrong value, a right one, the artifacts."""
    outside: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1300, "height": 1900})
        page.set_default_timeout(90_000)
        page.add_init_script(REMEMBER)
        page.on("request", lambda request: outside.append(request.url))
        page.goto(ui.link())
        page.get_by_role("link", name="Runs and schedules (Prefect)").click()
        page.get_by_role("link", name="evaluate").first.click()
        page.wait_for_url("**/deployments/deployment/*")
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_text("Custom run").click()
        before = {each["id"] for each in ui.runs("evaluate")}
        fill_form(page, tmp_path)
        (run,) = wait(lambda: {each["id"] for each in ui.runs("evaluate")} - before, 60)
        page.wait_for_url(f"**/runs/flow-run/{run}")
        assert ui.ended(run)["type"] == "COMPLETED"
        ui.logged(run, "ask: done")
        page.goto(f"{ui.address}/runs/flow-run/{run}")
        page.get_by_text("Completed", exact=True).first.wait_for()
        page.get_by_text("ask: done").first.wait_for()
        page.screenshot(path=tmp_path / "run.png")
        page.get_by_text("Artifacts", exact=True).click()
        page.get_by_role("link", name="report").first.wait_for()
        page.screenshot(path=tmp_path / "artifacts.png")
        look_at_artifacts(page, ui, run, tmp_path)
    assert [url for url in outside if not url.startswith((ui.address, "data:", "blob:"))] == []
    retrieve = asked_of_paretorag(ui)
    assert (retrieve["alpha"], retrieve["top_k"]) == (0.3, 40)
    print(f"screenshots: {tmp_path}")


REMEMBER = """
window.shown = [];
const keep = change => change.addedNodes.forEach(node => shown.push(node.textContent ?? ''));
new MutationObserver(changes => changes.forEach(keep)).observe(document, {childList: true, subtree: true});
"""
"""A page's script that keeps every text which is ever shown: a message that goes away by itself is not missed."""


def submit(page: Any) -> tuple[int, str]:
    """Press the button, and again where the server asks for that (SQLite is busy): its answer's status and body."""
    for _ in range(5):
        with page.expect_response("**/create_flow_run") as answer:
            page.get_by_role("button", name="Submit").click()
        if answer.value.status != 503:
            break
    return answer.value.status, answer.value.text()


def part(page: Any, name: str) -> Any:
    """The field of a form, with its label."""
    label = page.get_by_text(re.compile(rf"^{name}( \(Optional\))?$"))
    return page.locator(".p-label", has=label).last


def offered(page: Any, name: str) -> list[str]:
    """What the drop-down of a field lists, by the mouse."""
    part(page, name).locator("button.p-select-button__control").click()
    options = page.locator(".p-pop-over-content").get_by_role("option")
    options.first.wait_for()
    texts: list[str] = options.all_inner_texts()
    page.keyboard.press("Escape")
    return texts


def choose(page: Any, name: str, value: str) -> None:
    part(page, name).locator("button.p-select-button__control").click()
    page.locator(".p-pop-over-content").get_by_role("option", name=value, exact=True).click()


def open_form(page: Any, ui: Ui, flow: str) -> None:
    """From the list of deployments to the form, as a person does it."""
    page.goto(f"{ui.address}/deployments")
    page.get_by_role("link", name=flow, exact=True).first.click()
    page.wait_for_url("**/deployments/deployment/*")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    page.get_by_text("Workers (Optional)").wait_for()


def fill_form(page: Any, folder: Path) -> None:
    def field(name: str) -> Any:
        return part(page, name).locator("input, textarea").last

    page.get_by_text("Retriever (Optional)").wait_for()
    page.get_by_text("Weight of the core vector, from 0 to 1.").wait_for()
    choose(page, "Index", "demo")
    field("Sample").fill("6")
    page.get_by_text("Add item").click()
    field("More").fill(FAST[0])
    field("Alpha").fill("2")
    status, told = submit(page)
    assert (status, "parameters.alpha" in told) == (409, True), told
    page.wait_for_function("shown.some(text => text.includes(`Validation failed for field 'parameters.alpha'`))")
    page.screenshot(path=folder / "refused.png")
    field("Alpha").fill("0.3")
    status, told = submit(page)
    assert status == 201, told


def look_at_artifacts(page: Any, ui: Ui, run: str, folder: Path) -> None:
    for artifact in ui.artifacts(run):
        if artifact["key"] in ("report", "costs", "plot-accuracy-against-prompt-tokens"):
            page.goto(f"{ui.address}/artifacts/artifact/{artifact['id']}")
            is_plot = artifact["key"].startswith("plot-")
            shown = "img[src^='data:image/svg']" if is_plot else "td"
            page.locator(shown).first.wait_for()
            page.screenshot(path=folder / f"{artifact['key']}.png")
            if is_plot:
                assert page.locator(shown).first.evaluate("image => image.naturalWidth") > 100
                assert "base64" not in page.locator("body").inner_text()
            if artifact["key"] == "report":
                with page.expect_popup() as opened:
                    page.get_by_role("link", name="The whole report").click()
                report = opened.value.frame_locator("iframe")
                report.get_by_role("heading", name="Plots").wait_for()
                assert report.locator("svg").first.bounding_box()["width"] > 100
                opened.value.screenshot(path=folder / "report-page.png")


def test_a_form_lists_what_a_run_has_just_added(ui: Ui, tmp_path: Path) -> None:
    """By the mouse: an index is made from the form, then evaluated from the form, by an experiment that appeared."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1300, "height": 2800})
        page.set_default_timeout(90_000)
        page.goto(ui.link())
        page.get_by_role("heading", name="Ask").wait_for()
        open_form(page, ui, "evaluate")
        before = offered(page, "Index")
        assert "demo" in before
        assert "fresh" not in before
        page.screenshot(path=tmp_path / "evaluate-before.png")
        open_form(page, ui, "index-corpus")
        part(page, "Name").locator("textarea").fill("fresh")
        page.get_by_text("Add item").first.click()
        choose(page, "Format", "synthetic")
        part(page, "Path").locator("textarea").fill("passages=30,questions=6,seed=9")
        choose(page, "Context", "passage")
        page.screenshot(path=tmp_path / "index.png")
        status, told = submit(page)
        assert status == 201, told
        assert ui.ended(json.loads(told)["id"], 240)["type"] == "COMPLETED"
        (ui.store.parent / "experiments").mkdir()
        methods = "{naive: {retrieve: {retriever: passage}, generate: null}}"
        (ui.store.parent / "experiments" / "ours.yaml").write_text(f"methods: {methods}\n")
        open_form(page, ui, "evaluate")
        assert set(offered(page, "Index")) == {*before, "fresh"}
        choose(page, "Index", "fresh")
        choose(page, "Experiment", "ours")
        page.screenshot(path=tmp_path / "evaluate-after.png")
        status, told = submit(page)
        assert status == 201, told
        assert ui.ended(json.loads(told)["id"])["type"] == "COMPLETED"
    run = read_runs(ui.store)[-1]
    assert (run.name, [method["index"] for method in run.config["methods"]]) == ("ours", ["fresh"])
    print(f"screenshots: {tmp_path}")


def test_a_removed_index_is_refused_by_name_and_planned_runs_stay_planned(ui: Ui) -> None:
    index(ui.store, name="soon-gone")
    deployment = ui.deployment("evaluate")
    fields = deployment["parameter_openapi_schema"]["definitions"]["EvaluateForm"]["properties"]
    assert "soon-gone" in fields["index"]["enum"]
    parameters = {"parameters": {"store": str(ui.store), "index": "soon-gone"}}
    path = f"/deployments/{deployment['id']}/schedules"
    yearly = {"schedule": {"cron": "0 3 1 1 *", "timezone": "UTC"}, "active": True, "parameters": parameters}
    (schedule,) = ui.call(path, [yearly])
    try:
        planned = wait(lambda: {run["id"] for run in ui.runs("evaluate") if run["auto_scheduled"]}, 60)
        remove_index(ui.store, "soon-gone")
        status, told = ui.refused("evaluate", index="soon-gone")
        assert (status, "parameters.index" in told, "'demo'" in told) == (409, True, True), told
        assert {run["id"] for run in ui.runs("evaluate")} >= planned
    finally:
        ui.call(f"{path}/{schedule['id']}", method="DELETE")


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


def test_doctor_finds_the_server(ui: Ui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(ui.state_home))
    checks = {check.what: check for check in operations(ui.store)}
    assert checks["Prefect server"].found == f"{ui.address} answers"
    assert "`vitalfew deploy` makes it" in checks["work pool"].found
    assert "0 3 * * *" in checks["corpus towns"].found
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setenv("VITALFEW_WEBHOOK", "https://hooks.example/secret")
    checks = {check.what: check for check in operations(tmp_path)}
    assert "http://127.0.0.1:9 does not answer" in checks["Prefect server"].found
    assert not checks["Prefect server"].fine
    assert checks["webhook"].found == "hooks.example"


def test_a_server_that_dies_in_mid_run(ui: Ui, hold: Path) -> None:
    run = halted(ui, "lost", hold)
    family = ui.family()
    server = next(process for process in family if "vitalfew.pages" in process.cmdline())
    server.kill()
    told = ui.process.communicate(timeout=90)[1]
    assert ui.process.returncode == 1
    assert "the server ended (status -9)" in told.replace("\n", " ")
    assert "start `vitalfew ui`" in told.replace("\n", " ")
    assert psutil.wait_procs(family, timeout=10)[1] == []
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


def test_it_can_be_stopped_as_soon_as_it_is_ready(tmp_path: Path) -> None:
    own = Ui(tmp_path / "store")
    own.start()
    told, left = own.end(signal.SIGINT)
    assert "Stopped" in told
    assert left == []
    assert recorded(own) == ({}, {1})


def recorded(ui: Ui) -> tuple[dict[str, str], set[int]]:
    """Of one that has ended: the states of its runs, and whether its deployments are paused."""
    with closing(sqlite3.connect(ui.home / "prefect.db")) as database:
        states = dict(database.execute("SELECT id, state_type FROM flow_run"))
        return states, {paused for (paused,) in database.execute("SELECT paused FROM deployment")}
