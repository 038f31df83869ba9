"""The guard alone: which requests reach the application behind it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from vitalfew.flows.server.guard import START, Guard, origins

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def client(port: int = 4200, configured: str | None = None) -> TestClient:
    def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse("inside")

    async def speak(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("inside")
        await socket.close()

    routes = [Route("/api/any", answer, methods=METHODS), WebSocketRoute("/api/events", speak)]
    guarded = Guard(Starlette(routes=routes), origins(port, configured))
    return TestClient(guarded, base_url=f"http://127.0.0.1:{port}")


def heard(origin: str | None, host: str = "127.0.0.1:4200") -> bool:
    """Whether a WebSocket is opened."""
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    try:
        with client().websocket_connect("/api/events", headers=headers) as socket:
            return socket.receive_text() == "inside"
    except WebSocketDisconnect as closed:
        return closed.code != 1008  # a policy was violated


@pytest.mark.parametrize("host", ["127.0.0.1:4200", "localhost:4200", "LocalHost:4200"])
def test_its_own_host_is_answered(host: str) -> None:
    assert client().get("/api/any", headers={"Host": host}).text == "inside"
    assert heard(None, host)


@settings(deadline=None)  # its first example imports the server
@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40))
def test_no_other_host_is_answered(host: str) -> None:
    own = host.lower() in ("127.0.0.1:4200", "localhost:4200")
    for path in ("/api/any", START, "/"):
        status = client().get(path, headers={"Host": host}).status_code
        assert (status == 421) is not own


@pytest.mark.parametrize(
    "host", ["", "127.0.0.1", "127.0.0.1:4201", "evil.example:4200", "127.0.0.1.evil.example:4200", "0.0.0.0:4200"]
)
def test_a_name_that_only_looks_like_its_own_is_another(host: str) -> None:
    assert client().get("/api/any", headers={"Host": host}).status_code == 421
    assert not heard(None, host)


def test_two_hosts_are_none() -> None:
    headers = [("Host", "127.0.0.1:4200"), ("Host", "evil.example")]
    assert client().get("/api/any", headers=headers).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9000", "https://127.0.0.1:4200"])
@pytest.mark.parametrize("method", METHODS)
def test_a_page_of_another_origin_writes_nothing(method: str, origin: str) -> None:
    status = client().request(method, "/api/any", headers={"Origin": origin}).status_code
    assert status == (200 if method in ("GET", "HEAD") else 403)
    assert not heard(origin)


@pytest.mark.parametrize("origin", ["http://127.0.0.1:4200", "http://localhost:4200", None])
@pytest.mark.parametrize("method", METHODS)
def test_its_own_pages_and_programs_write(method: str, origin: str | None) -> None:
    headers = {"Origin": origin} if origin else {}
    assert client().request(method, "/api/any", headers=headers).status_code == 200
    assert heard(origin)


def test_the_configured_host_is_answered_too() -> None:
    behind = client(configured="https://vitalfew.example/api")
    own = {"Host": "vitalfew.example"}
    assert behind.post("/api/any", headers={**own, "Origin": "https://vitalfew.example"}).text == "inside"
    assert behind.post("/api/any", headers={**own, "Origin": "http://vitalfew.example"}).status_code == 403
    assert client().get("/api/any", headers=own).status_code == 421


def test_the_web_s_own_port_is_not_named_by_browsers() -> None:
    assert (
        client(port=80).post("/api/any", headers={"Host": "localhost", "Origin": "http://localhost"}).text == "inside"
    )


def test_the_start_page_runs_its_own_script_alone() -> None:
    page = client().get(START)
    assert page.headers["Cache-Control"] == "no-store"
    assert "script-src 'sha256-" in page.headers["Content-Security-Policy"]
    assert "prefect-password" in page.text
