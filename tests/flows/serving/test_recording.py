"""What a server tells of its requests: rows of `requests`, their macros, the dataset `requests:`, traces."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from tests.support.fakes import ChatServer, Reply
from tests.support.serving import Running, experiment, served
from vitalfew.flows.serving.application import application
from vitalfew.flows.serving.recording import RequestRows
from vitalfew.flows.serving.telemetry import tracing
from vitalfew.storage import requests
from vitalfew.storage.catalog.database import query
from vitalfew.storage.requests import RequestLog
from vitalfew.tasks.datasets.base import InputError, Question
from vitalfew.tasks.datasets.specification import parse_dataset

KEY = "0123456789abcdefghij"
QUESTIONS = [f"Who founded the town number {number}?" for number in range(5)]
HEADERS = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return experiment(tmp_path_factory.mktemp("recording"))


def asked(client: httpx.Client, path: str, **body: Any) -> httpx.Response:
    return client.post(path, json=body, headers=HEADERS)


def serve(store: Path, file: Path, keep: bool) -> None:
    """Ask a server of the store everything, once."""

    def make(hosts: set[str]) -> Any:
        configurations = [served(file, name) for name in ("sentences", "alone")]
        return application(configurations, {"team": KEY}, hosts, rows=RequestRows(RequestLog(store, 0.01), keep))

    with Running(make) as running, running.ready().client() as client:
        for question in QUESTIONS[:3]:
            assert "X-Request-Id" in asked(client, "/answer", question=question, model="sentences").headers
        found = asked(client, "/search", question=QUESTIONS[0], model="sentences")
        asked(client, "/answer", question="Does this fail?", model="alone")
        asked(client, "/answer", question="", model="sentences")
        asked(client, "/answer", question=QUESTIONS[0], model="another")
        asked(client, "/v1/rerank", query=QUESTIONS[3], documents=["a", "b"], model="sentences")
        messages = [{"role": "user", "content": QUESTIONS[4]}]
        asked(client, "/v1/chat/completions", model="sentences", messages=messages, stream=True)
        for path, key in (("/health", "none"), ("/metrics", KEY), ("/nothing", KEY), ("/answer", "a wrong key")):
            client.post(path, json={"question": "Hm?"}, headers={"Authorization": f"Bearer {key}"})
        call(client, "search", question=QUESTIONS[1])
        (passage,) = {hit["passage_id"] for hit in found.json()["hits"][:1]}
        call(client, "read", passage_id=passage)


def call(client: httpx.Client, tool: str, **arguments: Any) -> httpx.Response:
    """Call a tool as an agent does."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    accept = {"Accept": "application/json, text/event-stream", **HEADERS}
    return client.post("/mcp", json=body, headers=accept).raise_for_status()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, file: Path) -> Path:
    """A store whose server kept questions."""
    own = tmp_path_factory.mktemp("asked") / "store"
    serve(own, file, keep=True)
    return own


def rows(store: Path, columns: str, where: str = "true") -> list[tuple[Any, ...]]:
    return query(store, f"SELECT {columns} FROM requests WHERE {where} ORDER BY received").fetchall()


def test_every_question_is_a_row(store: Path) -> None:
    expected = [
        *(("/answer", "sentences", question, 200) for question in QUESTIONS[:3]),
        ("/search", "sentences", QUESTIONS[0], 200),
        ("/answer", "alone", "Does this fail?", 200),
        ("/answer", None, None, 422),
        ("/answer", None, None, 404),
        ("/v1/rerank", "sentences", QUESTIONS[3], 200),
        ("/v1/chat/completions", "sentences", QUESTIONS[4], 200),
        ("/mcp search", "sentences", QUESTIONS[1], 200),
        ("/mcp read", "sentences", None, 200),
    ]
    assert rows(store, "path, configuration, question, status") == expected
    assert rows(store, "DISTINCT key, usd IS NOT NULL", "path = '/answer' AND status = 200") == [("team", True)]
    slowest = query(store, "SELECT seconds FROM slow_requests(n := 3)").fetchall()
    assert slowest == sorted(rows(store, "seconds"), reverse=True)[:3]
    assert query(store, "SELECT status FROM unanswered() ORDER BY received").fetchall() == [(200,), (422,), (404,)]
    assert query(store, "SELECT sum(requests) FROM traffic(every := 'day')").fetchall() == [(11,)]


def questions(specification: str) -> list[str]:
    records = [record for _, record in parse_dataset(specification)[1].records()]
    return [record.text for record in records if isinstance(record, Question)]


def test_what_was_asked_can_be_asked_again(store: Path) -> None:
    everything = [*QUESTIONS[:3], "Does this fail?", QUESTIONS[3], QUESTIONS[4]]
    assert questions(f"requests:store={store}") == everything
    assert questions(f"requests:store={store},unanswered=true") == ["Does this fail?"]
    assert questions(f"requests:store={store},since=2026-01-01,until=2126-01-01T00:00:00Z") == everything
    with pytest.raises(InputError, match=r"none of the 11 requests"):
        questions(f"requests:store={store},until=2026-01-01")


def test_questions_are_kept_only_where_that_is_wanted(tmp_path: Path, file: Path) -> None:
    serve(tmp_path, file, keep=False)
    assert query(tmp_path, "SELECT count(*), count(question) FROM requests").fetchall() == [(11, 0)]
    assert not [path for path in requests.paths(tmp_path) if b"town number" in path.read_bytes()]


def test_what_a_models_server_says_of_a_question_is_kept_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def echo(path: str, body: Any, attempt: int) -> Reply:
        if not path.endswith("/completions"):
            return Reply({"object": "list", "data": []})
        said = body["messages"][0]["content"]
        if "hear us" in said:
            return Reply({"error": {"message": said}}, status=503)
        return Reply(said.encode() if attempt % 2 else {"error": {"message": said}}, status=400)

    monkeypatch.setenv("OPENAI_API_KEY", "")
    with ChatServer(echo) as server:
        mine = tmp_path / "mine.yaml"
        generate = f"{{generator: openai, model: m, base_url: {server.url}, retries: 0}}"
        mine.write_text(f"about: echoed\nchoose: null\nmethods:\n  alone: {{retrieve: null, generate: {generate}}}\n")

        def make(hosts: set[str]) -> Any:
            return application([served(mine, "alone")], hosts=hosts, rows=RequestRows(RequestLog(tmp_path, 0.01)))

        with Running(make) as running, running.ready().client() as client:
            assert QUESTIONS[0] in client.post("/answer", json={"question": QUESTIONS[0]}).text
            messages = [{"role": "user", "content": QUESTIONS[0]}]
            refused = client.post("/v1/chat/completions", json={"model": "alone", "messages": messages})
            assert refused.status_code == 502
            down = client.post("/answer", json={"question": "Does it hear us?"})
            assert (down.status_code, down.json()["error"]["code"]) == (503, "unavailable")
            call(client, "answer", question="Does it hear us?")
    rows = query(tmp_path, "SELECT error FROM requests ORDER BY received").fetchall()
    assert rows[:2] == [("Error code: 400 (the server's words are kept with --keep-questions)",)] * 2
    assert len(rows) == 4
    for kept in (str(rows), caplog.text):
        assert "hear us" not in kept
        assert QUESTIONS[0] not in kept


def test_a_request_is_a_span_of_the_clients_trace(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    sent: list[Any] = []
    monkeypatch.setattr(OTLPSpanExporter, "export", lambda exporter, spans: sent.extend(spans))
    traces = tracing()
    parent = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}

    def make(hosts: set[str]) -> Any:
        return application([served(file, "sentences")], hosts=hosts, tracing=traces)

    with Running(make) as running, running.ready().client(headers=parent) as client:
        client.post("/answer", json={"question": QUESTIONS[0]})
        client.post("/search", json={"question": ""})
        client.get("/health")
        call(client, "answer", question=QUESTIONS[1])
    answered, refused, agent = sorted(sent, key=lambda span: span.start_time)
    assert [span.name for span in (answered, refused, agent)] == ["chat sentences", "retrieval", "execute_tool answer"]
    assert (answered.context.trace_id, answered.parent.span_id) == (int("ab" * 16, 16), int("cd" * 8, 16))
    assert answered.attributes["gen_ai.request.model"] == "sentences"
    assert answered.attributes["gen_ai.usage.input_tokens"] > 0
    assert answered.attributes["vitalfew.seconds.retrieve"] > 0
    assert not any(QUESTIONS[0] in span.to_json() for span in sent)
