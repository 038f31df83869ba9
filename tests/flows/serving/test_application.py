"""The server of answers, by the real application on a port, asked as clients ask."""

import json
import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.serving import PATIENCE, Held, Running, experiment, served, until
from vitalfew.flows.pipelines.answering import Answering, RagAnswer
from vitalfew.flows.pipelines.refining import refine
from vitalfew.flows.serving.application import Limits, application
from vitalfew.flows.serving.batching import Bounds
from vitalfew.flows.serving.chat import chunks, completion
from vitalfew.tasks.datasets.base import MOST_QUESTION as MOST

QUESTIONS = [f"Who founded the town number {number}, and when?" for number in range(50)]
QUESTION = QUESTIONS[0]
JSON = {"Content-Type": "application/json"}
KEY = "0123456789abcdefghij"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return experiment(tmp_path_factory.mktemp("serving"))


@pytest.fixture(scope="module")
def running(file: Path) -> Iterator[Running]:
    def make(hosts: set[str]) -> Any:
        return application([served(file, name) for name in ("sentences", "passages", "alone")], hosts=hosts)

    with Running(make) as server:
        yield server.ready()


@pytest.fixture
def client(running: Running) -> Iterator[httpx.Client]:
    with running.client() as opened:
        yield opened


def status(running: Running, question: str) -> int:
    """Ask on a connection of its own."""
    with running.client() as client:
        return client.post("/answer", json={"question": question}).status_code


def message(response: httpx.Response) -> str:
    return response.json()["error"]["message"]


def counted(client: httpx.Client) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


# Answers


def test_a_served_answer_is_the_answer(running: Running) -> None:
    """Asked alone and together with others; golden/test_served.py has other methods."""
    method = "sentences"
    own = running.app.state.service.served[method].answering
    expected = Answering(own.store, own.configured).answer(QUESTIONS)

    def ask(question: str) -> dict[str, Any]:
        with running.client() as client:
            return client.post("/answer", json={"question": question, "model": method}).raise_for_status().json()

    single = [ask(question) for question in QUESTIONS[:10]]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(ask, QUESTIONS))
    assert together[:10] == [
        {**each, "seconds": other["seconds"], "usd": other["usd"]}
        for each, other in zip(single, together, strict=False)
    ]
    for given, answer in zip(together, expected, strict=True):
        assert given["text"] == answer.text
        assert [context["text"] for context in given["contexts"]] == [context.text for context in answer.contexts]
        sources = [[source["passage_id"] for source in context["sources"]] for context in given["contexts"]]
        assert sources == [[str(source.passage_id) for source in context.sources] for context in answer.contexts]
        assert (given["tokens_saved"], given["fingerprint"]) == (answer.tokens_saved, answer.fingerprint)
        assert given["left_out"] == 0


def test_max_tokens_bounds_what_comes_back_and_not_the_answer(client: httpx.Client) -> None:
    body = {"question": QUESTION, "model": "sentences"}
    whole, least = (client.post("/answer", json={**body, **more}).json() for more in ({}, {"max_tokens": 25}))
    assert whole["text"] == least["text"]
    assert sum(context["tokens"] for context in least["contexts"]) <= 25
    assert least["left_out"] == len(whole["contexts"]) - len(least["contexts"]) > 0


def test_an_error_of_the_model_is_said(client: httpx.Client) -> None:
    body = {"question": "Does this fail?", "model": "sentences"}
    assert "no answer to this" in client.post("/answer", json=body).json()["error"]
    chat = {"model": "sentences", "messages": [{"role": "user", "content": "Does this fail?"}]}
    response = client.post("/v1/chat/completions", json=chat)
    assert (response.status_code, response.json()["error"]["code"]) == (502, "unanswered")


# OpenAI's client


@pytest.fixture
def chat(running: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.address}/v1", api_key="none", max_retries=0) as opened:
        yield opened


@pytest.mark.parametrize(("reason", "said"), [("length", "length"), ("refusal", "content_filter")])
def test_a_cut_or_refused_answer_is_no_whole_one(reason: str, said: str) -> None:
    answer = RagAnswer("q", "a", (), 1, 1, 1, 0, {}, 0.0, "f", finish_reason=reason)
    assert completion(answer, "m")["choices"][0]["finish_reason"] == said
    events = [json.loads(each[6:]) for each in chunks(answer, "m", include_usage=False) if "[DONE]" not in each]
    assert events[-1]["choices"][0]["finish_reason"] == said


def test_openais_client_asks_and_reads_a_stream(chat: openai.OpenAI, client: httpx.Client) -> None:
    assert [model.id for model in chat.models.list()] == ["sentences", "passages", "alone"]
    assert chat.models.retrieve("passages").id == "passages"
    messages: Any = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Something else?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ]
    given = chat.chat.completions.create(model="sentences", messages=messages, temperature=0.5)
    answer = client.post("/answer", json={"question": QUESTION, "model": "sentences"}).json()
    assert (given.choices[0].message.content, given.choices[0].finish_reason) == (answer["text"], "stop")
    assert given.usage.total_tokens == answer["prompt_tokens"] + answer["completion_tokens"]
    extension = given.model_extra["vitalfew"]
    assert all(extension[name] == answer[name] for name in ("contexts", "fingerprint", "tokens_saved"))
    streaming: Any = {"stream": True, "stream_options": {"include_usage": True}}
    parts = [*chat.chat.completions.create(model="sentences", messages=messages, **streaming)]
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == answer["text"]
    assert len(parts) > 4
    assert parts[-1].usage == given.usage
    assert [part.choices[0].finish_reason for part in parts if part.choices][-1] == "stop"
    assert parts[-2].model_extra["vitalfew"]["contexts"] == extension["contexts"]


# Reranking


def test_documents_are_ranked_by_their_cosine(client: httpx.Client) -> None:
    documents: list[Any] = ["nothing of it", "the red lighthouse of Velmar", {"text": "the red lighthouse"}]
    body = {"query": "the red lighthouse", "documents": documents, "model": "sentences"}
    given = client.post("/v1/rerank", json=body).json()
    scores = [result["relevance_score"] for result in given["results"]]
    assert [result["index"] for result in given["results"]] == [2, 1, 0]
    assert scores[0] == pytest.approx(1, abs=1e-5)
    assert scores == sorted(scores, reverse=True)
    two = client.post("/v1/rerank", json={**body, "top_n": 2, "return_documents": True}).json()["results"]
    assert [result["document"]["text"] for result in two] == ["the red lighthouse", "the red lighthouse of Velmar"]
    assert client.post("/v1/rerank", json={**body, "documents": []}).status_code == 422


# Faulty requests

PASSAGES = [
    {"title": "Travel", "text": "Trips are fun. A trip abroad needs the word of the director."},
    {"text": "No."},
]
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
REFINED = {"refiner": "cut", "question": "Who approves a trip?", "passages": PASSAGES}
FAULTS: list[tuple[str, Any, int, str]] = [
    ("/answer", {"question": QUESTION}, 400, "name a model: sentences, passages, alone"),
    ("/answer", {"question": " ", "model": "alone"}, 422, "question: the question is empty"),
    ("/answer", {"question": "x" * (MOST + 1), "model": "alone"}, 422, f"at most {MOST:,} are answered"),
    ("/v1/chat/completions", {"model": "alone", "messages": [IMAGE]}, 400, "only parts of type 'text'"),
    ("/answer", {"question": QUESTION, "model": "\ud800"}, 404, "there is no model"),
    ("/refine", {**REFINED, "refiner": "os:path"}, 400, "refiner"),
    ("/refine", {**REFINED, "settings": {"model": "/etc"}}, 422, "settings"),
]


@pytest.mark.parametrize(("path", "body", "status", "words"), FAULTS)
def test_a_faulty_request_is_explained(client: httpx.Client, path: str, body: Any, status: int, words: str) -> None:
    response = client.post(path, content=json.dumps(body), headers=JSON)
    assert (response.status_code, words in message(response)) == (status, True), response.text
    assert response.json()["error"]["type"] in {"invalid_request_error", "not_found_error"}


def test_what_is_not_json_or_too_long_is_refused(client: httpx.Client) -> None:
    for content in (b"", b"\xff", b"[" * 100_000, b"NaN"):
        response = client.post("/answer", content=content, headers=JSON)
        assert (response.status_code in (400, 422), bool(message(response))) == (True, True), response.text
    long = b"x" * (2**20 + 1)
    assert client.post("/answer", content=long).status_code == 413
    assert client.post("/answer", content=iter([long[:1000], long[1000:]])).status_code == 413


def test_other_hosts_and_origins_are_refused(client: httpx.Client, running: Running) -> None:
    body = {"question": QUESTION, "model": "alone"}
    rebound = client.post("/answer", json=body, headers={"Host": "evil.example"})
    assert (rebound.status_code, "only accepts requests for" in message(rebound)) == (421, True)
    assert client.post("/answer", json=body, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/answer", json=body, headers={"Origin": running.address}).status_code == 200
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "MDEyMzQ1Njc4OWFiY2RlZg=="
    assert client.get("/search", headers=upgrade).status_code == 403  # there are no WebSockets
    for probe in ("/health", "/ready"):  # whoever watches a container knows it by its address
        assert client.get(probe, headers={"Host": "10.0.0.7:8765"}).status_code == 200


# Keys


def test_keys_are_needed_where_there_are_some(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    keys = {"one": KEY, "two": KEY[::-1]}
    body = {"question": "A secret question?"}
    with (
        Running(lambda hosts: application([served(file, "alone")], keys, hosts)) as running,
        running.client() as client,
    ):
        for given in ({}, {"Authorization": KEY}, {"Authorization": f"Bearer {KEY}x"}, {"Authorization": "Bearer é"}):
            headers = {name: value.encode("latin-1") for name, value in given.items()}
            refused = client.post("/answer", json=body, headers=headers)  # type: ignore[arg-type]
            assert refused.status_code == 401
            assert refused.headers["WWW-Authenticate"] == "Bearer"
        for key in keys.values():
            assert client.post("/answer", json=body, headers={"Authorization": f"Bearer {key}"}).status_code == 200
        assert client.get("/metrics").status_code == 401
        assert client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status_code == 401
        assert client.get("/health").status_code == 200
    logged = "\n".join(
        record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "openai", "httpcore"))
    )
    assert "secret" not in logged
    assert KEY not in logged


# The line


def test_a_full_line_refuses(file: Path) -> None:
    each = served(file, "alone", bounds=Bounds(room=2, requests=1))
    held = Held(each)
    with Running(lambda hosts: application([each], hosts=hosts)) as running, ThreadPoolExecutor(3) as pool:
        running.ready()
        first = pool.submit(status, running, QUESTIONS[0])
        held.wait()
        others = [pool.submit(status, running, question) for question in QUESTIONS[1:3]]
        until(lambda: each.line.waiting == 2)
        with running.client() as client:
            refused = client.post("/answer", json={"question": QUESTIONS[3]})
        assert (refused.status_code, int(refused.headers["Retry-After"]) >= 1) == (429, True)
        assert refused.json()["error"]["type"] == "rate_limit_error"
        held.free.set()
        assert [future.result() for future in (first, *others)] == [200] * 3


def test_who_hangs_up_leaves_the_line(file: Path) -> None:
    each = served(file, "alone", bounds=Bounds(requests=1))
    held = Held(each)
    with Running(lambda hosts: application([each], hosts=hosts)) as running, ThreadPoolExecutor(1) as pool:
        running.ready()
        first = pool.submit(status, running, QUESTIONS[0])
        held.wait()
        body = json.dumps({"question": QUESTIONS[1]}).encode()
        host, port = running.listening.getsockname()
        head = f"POST /answer HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        with socket.create_connection((host, port), timeout=PATIENCE) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            until(lambda: each.line.waiting == 1)
        until(lambda: each.line.waiting == 0)
        held.free.set()
        assert first.result() == 200
        assert status(running, QUESTIONS[2]) == 200
        with running.client() as client:
            until(lambda: counted(client).get(("vitalfew_requests_total", "/answer", "499")) == 1)
    assert held.batches == [[QUESTIONS[0]], [QUESTIONS[2]]]


def test_a_request_has_a_time(file: Path) -> None:
    each = served(file, "alone")
    held = Held(each)
    with Running(lambda hosts: application([each], hosts=hosts, limits=Limits(seconds=0.3))) as running:
        running.ready()
        with running.client() as client:
            late = client.post("/answer", json={"question": QUESTION})
            assert (late.status_code, late.json()["error"]["code"]) == (504, "timeout")
            assert client.get("/health").status_code == 200
            held.free.set()


def test_what_was_accepted_is_answered_when_the_server_ends(file: Path) -> None:
    each = served(file, "alone", bounds=Bounds(requests=1))
    held = Held(each)
    with Running(lambda hosts: application([each], hosts=hosts)) as running, ThreadPoolExecutor(3) as pool:
        running.ready()
        asked = [pool.submit(status, running, question) for question in QUESTIONS[:3]]
        held.wait()
        until(lambda: each.line.waiting == 2)
        running.end()

        def refuses() -> bool:
            try:
                httpx.get(f"{running.address}/health")
            except httpx.TransportError:
                return True
            return False

        until(refuses)
        held.free.set()
        assert [future.result() for future in asked] == [200] * 3


# Readiness and figures


def test_a_server_is_ready_when_every_model_has_answered(file: Path) -> None:
    slow, quick = served(file, "alone"), served(file, "passages")
    held = Held(slow, "warm")
    with Running(lambda hosts: application([slow, quick], hosts=hosts)) as running, running.client() as client:
        until(lambda: quick.ready)
        assert client.get("/health").status_code == 200
        assert client.get("/ready").status_code == 503
        body = {"question": QUESTION, "model": "passages"}
        assert client.post("/answer", json=body).status_code == 200
        held.free.set()
        until(lambda: client.get("/ready").status_code == 200)


def test_figures_count_requests_and_tokens(client: httpx.Client) -> None:
    body = {"question": QUESTION, "model": "passages"}
    before = counted(client)
    answer = client.post("/answer", json=body).json()
    client.get("/made/up/by/a/client")
    after = counted(client)

    def more(*key: str) -> float:
        return after[key] - before.get(key, 0)

    for key in (("requests_total", "/answer", "200"), ("requests_total", "other", "404"),
                ("request_seconds_count", "/answer"), ("step_seconds_count", "passages", "retrieve")):  # fmt: skip
        assert more(f"vitalfew_{key[0]}", *key[1:]) == 1
    for kind, name in (("in", "prompt_tokens"), ("out", "completion_tokens"), ("saved", "tokens_saved")):
        assert more("vitalfew_tokens_total", kind, "passages") == answer[name]
    assert after["vitalfew_waiting", "passages"] == 0
    (index,) = {key[1] for key in after if key[0] == "vitalfew_index_generation"}
    assert after["vitalfew_served_generation", "passages"] == after["vitalfew_index_generation", index] == 1
    assert not any("made" in part for key in after for part in key)


# Agents, and passages of a client's own


def test_passages_of_ones_own_are_refined(client: httpx.Client) -> None:
    found = client.post("/refine", json={**REFINED, "max_tokens": 8}).raise_for_status().json()
    expected = refine("cut", "Who approves a trip?", PASSAGES, max_tokens=8)
    assert [context["text"] for context in found["contexts"]] == [context.text for context in expected]
    assert found["contexts"][0]["sources"][0] == {
        "passage_id": "0", "title": "Travel", "start": 0, "end": 34, "source_id": "", "also": []
    }  # fmt: skip
