"""Reports in the browser: for those who were let in, of one store, and without scripts."""

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from vitalfew.flows.server.guard import START, Addresses, Links
from vitalfew.flows.server.reports import report_path, reports

RUN = "20261126-043130-feb6c3"
LINKS = Links("secret")
OWN = {"Authorization": f"Basic {LINKS.key}"}


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    folder = tmp_path / "store" / "reports" / RUN
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<h1>quickstart</h1>")
    (folder / "methods.csv").write_text("method")
    (tmp_path / "store" / "report.html").write_text("of no run")
    return TestClient(Addresses(Starlette(), {**LINKS.answers, **reports(tmp_path / "store", LINKS)}))


def test_a_report_is_for_those_who_have_the_secret_or_were_let_in_and_runs_no_script(client: TestClient) -> None:
    page, address = report_path(RUN), f"{report_path(RUN)}/report.html"
    for path in (page, address):
        for headers in ({}, {"Authorization": "Basic c2VjcmV0Og=="}, {"Cookie": "vitalfew-80=guessed"}):
            assert client.get(path, headers=headers).status_code == 401
    assert client.post(address, headers=OWN).status_code == 405
    assert client.get(address, headers=OWN).text == "<h1>quickstart</h1>"
    client.post(START, content=LINKS.new())  # which gives the cookie
    assert f'<iframe sandbox title="Report" src="{address}">' in client.get(page).text
    answer = client.get(address)
    assert (answer.status_code, answer.text) == (200, "<h1>quickstart</h1>")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_nothing_else_of_the_store_is_served(client: TestClient) -> None:
    for name in ("../../report.html", "methods.csv", "report.html%00", "..%2f..%2f/report.html"):
        assert client.get(f"/reports/{RUN}/{name}", headers=OWN).status_code == 404
    for path in ("%2e%2e/report.html", "of-no-run/report.html"):
        assert client.get(f"/reports/{path}", headers=OWN).status_code == 404
