"""Pages of Prefect's UI get the script that lets a mouse open a drop-down; nothing else is touched."""

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from vitalfew.flows.server.pages import MendedPages

PAGE = "<html><head><title>Prefect</title></head><body>" + "é" * 2000 + "</body></html>"
BROWSER = {"Accept": "text/html,application/xhtml+xml", "Accept-Encoding": "gzip, br"}


def whole(request: Request) -> Response:
    return HTMLResponse(PAGE, 304 if "if-none-match" in request.headers else 200, {"ETag": "old"})


def in_parts(request: Request) -> Response:
    parts: Iterator[str] = (PAGE[place : place + 100] for place in range(0, len(PAGE), 100))
    return StreamingResponse(parts, media_type="text/html")


def answer(request: Request) -> Response:
    return JSONResponse({"text": PAGE})


@pytest.fixture
def client() -> TestClient:
    routes = [Route("/whole", whole), Route("/parts", in_parts), Route("/answer", answer)]
    packed = GZipMiddleware(Starlette(routes=routes))
    return TestClient(MendedPages(packed))


@pytest.mark.parametrize("path", ["/whole", "/parts"])
def test_a_page_has_the_script_and_all_that_it_had(client: TestClient, path: str) -> None:
    page = client.get(path, headers={**BROWSER, "If-None-Match": "old"})
    assert page.status_code == 200
    before, _script, after = page.text.partition("<script>")
    assert "stopPropagation" in after
    assert before + after.partition("</script>")[2] == PAGE
    assert int(page.headers["content-length"]) == len(page.content)


def test_a_link_leads_to_the_pages_where_they_are(client: TestClient) -> None:
    assert "/vitalfew/" not in client.get("/whole", headers=BROWSER).text
    linked = TestClient(MendedPages(Starlette(routes=[Route("/whole", whole)]), linked=True))
    page = linked.get("/whole", headers=BROWSER)
    assert '<a id="vitalfew" href="/vitalfew/">' in page.text
    assert int(page.headers["content-length"]) == len(page.content)


def test_other_answers_are_as_they_were(client: TestClient) -> None:
    assert client.get("/answer", headers=BROWSER).json() == {"text": PAGE}
    assert client.get("/answer").json() == {"text": PAGE}
    assert client.get("/whole", headers={"Accept": "*/*"}).text == PAGE
    assert client.get("/missing", headers=BROWSER).status_code == 404
