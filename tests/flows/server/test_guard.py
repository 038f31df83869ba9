"""The guard alone: which requests reach the application behind it."""

from base64 import b64encode

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from vitalfew.flows.server.guard import KEPT, LIFE, LINK, START, Addresses, Guard, Links, origins

METHODS = ["GET", "POST", "DELETE", "OPTIONS"]
SECRET = "the secret of this start"
KEY = b64encode(SECRET.encode()).decode()
OWN = {"Authorization": f"Basic {KEY}"}
EVIL = {"Origin": "http://evil.example"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def client(port: int = 4200, configured: str | None = None, clock: Clock | None = None) -> TestClient:
    def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse("inside")

    async def speak(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("inside")
        await socket.close()

    routes = [Route("/api/any", answer, methods=METHODS), WebSocketRoute("/api/events", speak)]
    inner = Addresses(Starlette(routes=routes), Links(SECRET, clock or Clock()).answers)
    return TestClient(Guard(inner, origins(port, configured)), base_url=f"http://127.0.0.1:{port}")


def heard(origin: str | None, host: str = "127.0.0.1:4200") -> bool:
    """Whether a WebSocket is opened."""
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    try:
        with client().websocket_connect("/api/events", headers=headers) as socket:
            return socket.receive_text() == "inside"
    except WebSocketDisconnect as closed:
        return closed.code != 1008  # a policy was violated


def test_no_other_host_is_answered() -> None:
    for host in ("", "evil.example", "127.0.0.1:4201", "127.0.0.1.evil.example:4200", "0.0.0.0:4200"):
        for path in ("/api/any", START, "/"):
            assert client().get(path, headers={"Host": host}).status_code == 421
        assert not heard(None, host)
    assert client().get("/api/any", headers={"Host": "LOCALHOST:4200"}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "is_own"),
    [("http://evil.example", False), ("null", False), ("https://127.0.0.1:4200", False),
     ("http://localhost:4200", True), (None, True)],
)  # fmt: skip
def test_only_its_own_pages_and_programs_write(origin: str | None, is_own: bool) -> None:
    headers = {"Origin": origin} if origin else {}
    for method in METHODS:
        status = client().request(method, "/api/any", headers=headers).status_code
        assert status == (200 if is_own or method == "GET" else 403)
    assert heard(origin) == is_own


def test_the_configured_host_is_answered_too() -> None:
    behind = client(configured="https://vitalfew.example/api")
    own = {"Host": "vitalfew.example"}
    assert behind.post("/api/any", headers={**own, "Origin": "https://vitalfew.example"}).text == "inside"
    assert behind.post("/api/any", headers={**own, "Origin": "http://vitalfew.example"}).status_code == 403


def test_the_start_page_runs_its_own_script_alone() -> None:
    page = client().get(START)
    assert page.headers["Cache-Control"] == "no-store"
    assert "script-src 'sha256-" in page.headers["Content-Security-Policy"]
    assert SECRET not in page.text
    assert KEY not in page.text


def test_a_link_opens_the_interface_once() -> None:
    """By the key, for Prefect's pages, and a cookie, which is another value and which no script reads."""
    server = client()
    first, second = (server.post(LINK, headers=OWN).text for _ in range(2))
    assert SECRET not in first
    for other in (b"", b"guessed", first[:-1].encode(), KEY.encode(), SECRET.encode(), b"a" * 10**6):
        refused = server.post(START, content=other)
        assert (refused.status_code, "Set-Cookie" in refused.headers) == (403, False)
    assert server.post(START, content=first, headers=EVIL).status_code == 403
    given = server.post(START, content=first, headers={"Origin": "http://localhost:4200"})
    assert (given.status_code, given.text, given.headers["Cache-Control"]) == (200, KEY, "no-store")
    name, _, rest = given.headers["Set-Cookie"].partition("=")
    value, *attributes = (part.strip() for part in rest.split(";"))
    assert {"HttpOnly", "SameSite=strict"} <= {*attributes}
    assert (name, len(value) > 40, value in (KEY, SECRET)) == ("vitalfew-4200", True, False)
    assert server.post(START, content=first).status_code == 403
    assert server.post(START, content=second).text == KEY


def test_a_link_works_for_ten_minutes() -> None:
    clock = Clock()
    server = client(clock=clock)
    late, early = (server.post(LINK, headers=OWN).text for _ in range(2))
    clock.now = LIFE
    assert server.post(START, content=early).status_code == 200
    clock.now = LIFE + 1
    assert server.post(START, content=late).status_code == 403


def test_only_the_secret_makes_a_link_and_few_wait() -> None:
    server = client()
    for headers in ({}, {"Authorization": "Basic Z3Vlc3NlZA=="}, {"Authorization": KEY}, {"Authorization": "Basic é"}):
        sent = {name: value.encode("latin-1") for name, value in headers.items()}
        assert server.post(LINK, headers=sent).status_code == 401
    assert server.post(LINK, headers={**OWN, **EVIL}).status_code == 403
    codes = [server.post(LINK, headers=OWN).text for _ in range(KEPT + 1)]
    assert [server.post(START, content=code).status_code for code in codes] == [403, *[200] * KEPT]
