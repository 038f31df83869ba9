"""Reports in the browser: for those who have the secret, of one store, and without scripts of theirs."""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from vitalfew.flows.server.guard import Links
from vitalfew.flows.server.reports import Reports, report_path

RUN = "20261126-043130-feb6c3"
LINKS = Links("secret")
OWN = {"Authorization": f"Basic {LINKS.key}"}


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    def other(request: Request) -> PlainTextResponse:
        return PlainTextResponse("Prefect's")

    folder = tmp_path / "store" / "reports" / RUN
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<h1>quickstart</h1>")
    (folder / "methods.csv").write_text("method")
    (tmp_path / "store" / "report.html").write_text("of no run")
    inner = Starlette(routes=[Route("/reports", other), Route("/api/{rest:path}", other)])
    return TestClient(Reports(inner, tmp_path / "store", LINKS))


def test_a_report_is_for_those_who_have_the_secret(client: TestClient) -> None:
    address = f"{report_path(RUN)}/report.html"
    answer = client.get(address, headers=OWN)
    assert (answer.status_code, answer.text) == (200, "<h1>quickstart</h1>")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert client.get(address).status_code == 401
    assert client.get(address, headers={"Authorization": "Basic c2VjcmV0Og=="}).status_code == 401
    assert client.post(address, headers=OWN).status_code == 405


def test_the_page_of_a_report_has_nothing_of_it_and_runs_its_own_script_alone(client: TestClient) -> None:
    page = client.get(report_path(RUN))
    assert page.status_code == 200
    assert "quickstart" not in page.text
    assert page.text == client.get(report_path("of-no-run")).text
    script = re.search("<script>(.*)</script>", page.text, re.DOTALL)
    assert script
    digest = b64encode(sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page.headers["content-security-policy"]


def test_nothing_else_of_the_store_is_served(client: TestClient) -> None:
    for name in ("../../report.html", "methods.csv", "report.html%00", "..%2f..%2f/report.html"):
        assert client.get(f"/reports/{RUN}/{name}", headers=OWN).status_code == 404
    for path in ("%2e%2e/report.html", "of-no-run/report.html"):
        assert client.get(f"/reports/{path}", headers=OWN).status_code == 404
