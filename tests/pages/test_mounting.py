"""The pages beside another application: who gets them, and which scripts they may run."""

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from nicegui.testing.general import nicegui_reset_globals
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from vitalfew.flows.server.guard import LINK, START, Addresses, Guard, Links, origins
from vitalfew.pages.mounting import mounted
from vitalfew.pages.shell import PAGES, Page
from vitalfew.pages.site import Site

SOCKET = "ws://127.0.0.1:4200/vitalfew/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
OWN = "http://127.0.0.1:4200"


def other(request: Request) -> PlainTextResponse:
    return PlainTextResponse("Prefect's")


@pytest.fixture(scope="module")
def links() -> Links:
    return Links("the secret of this start")


@pytest.fixture(scope="module")
def served(links: Links) -> Iterator[TestClient]:
    """NiceGUI has one set of pages per process: it is made once for this file."""
    with nicegui_reset_globals():
        prefect = Starlette(routes=[Route("/{path:path}", other)])
        inner = Addresses(mounted(Site(Path("nowhere")))(prefect, links), links.answers)
        guarded = Guard(inner, origins(4200))
        with TestClient(guarded, base_url=OWN) as client:
            yield client


@pytest.fixture(scope="module")
def known(served: TestClient, links: Links) -> dict[str, str]:
    """The headers of a browser that opened a link."""
    code = served.post(LINK, headers={"Authorization": f"Basic {links.key}"}).text
    given = served.post(START, content=code).headers["Set-Cookie"]
    served.cookies.clear()
    return {"Cookie": given.partition(";")[0], "Host": "127.0.0.1:4200"}


def opens(served: TestClient, **headers: str) -> bool:
    """Return true if the server opens a WebSocket."""
    try:
        with served.websocket_connect(SOCKET, headers={"Host": "127.0.0.1:4200", **headers}) as socket:
            return socket.receive_text().startswith("0{")
    except WebSocketDisconnect as closed:
        return closed.code != 1008  # a policy was violated


def test_pages_and_sockets_need_the_cookie(served: TestClient, links: Links) -> None:
    for cookies in ({}, {"vitalfew-4200": "guessed"}, {"vitalfew-4200": links.key}, {"other": links.session}):
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
        for path in ("/vitalfew", *(f"/vitalfew{page.path}" for page in PAGES), "/vitalfew/_nicegui/x"):
            answer = served.get(path, headers=sent)
            assert answer.status_code == 401
            assert "vitalfew ui --link" in answer.text
        assert not opens(served, **sent)
    assert served.get("/deployments").text == "Prefect's"
    assert served.get("/vitalfewer").text == "Prefect's"


def test_another_origin_opens_and_reads_nothing(served: TestClient, known: dict[str, str]) -> None:
    assert opens(served, **known, Origin=OWN)
    assert not opens(served, **known, Origin="http://evil.example")
    assert not opens(served, **(known | {"Host": "evil.example"}), Origin=OWN)
    polling = SOCKET.replace("ws:", "http:").replace("=websocket", "=polling")
    assert served.get(polling, headers={**known, "Origin": OWN}).text.startswith("0{")
    for path in (polling, "/vitalfew/"):
        answer = served.get(path, headers={**known, "Origin": "http://localhost:3000"})
        assert (answer.status_code, answer.headers.get("Access-Control-Allow-Origin")) == (403, None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_a_page_names_the_scripts_that_may_run(served: TestClient, known: dict[str, str], page: Page) -> None:
    answer = served.get(f"/vitalfew{page.path}", headers=known)
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    scripts = re.findall(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", answer.content, re.DOTALL)
    assert scripts
    for script in scripts:
        assert f"'sha256-{b64encode(sha256(script).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-inline" not in policy.partition("style-src")[0]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    outside = re.findall(rb"""(?:src|href)=["'](?:https?:)?//[^"']*""", answer.content)
    assert outside == []
