"""The pages in a real browser, on the demo's index and experiment with fewer questions: `make test-ui`.

Every page and every view of it: no error on the console, no request to another host, nothing serious for axe-core in
light or dark, nothing wider than a phone. `VITALFEW_SCREENSHOTS`: a folder for pictures of them; `VITALFEW_DEMO`: a
store that `vitalfew demo` has made, to look at.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vitalfew as vf
from tests.support.browser import chromium
from tests.support.evaluating import copied
from tests.support.prefect_ui import Ui
from tests.support.shared import shared
from vitalfew.pages.shell import PAGES

pytestmark = pytest.mark.slow

VIEWS = [
    *(page.path for page in PAGES),
    "/?question=What+is+a+finally+clause%3F&method=quickstart%3AParetoRAG&method=quickstart%3Anaive+RAG",
    "/corpora?index=demo",
    *(f"/corpora?start={flow}" for flow in ("index-corpus", "re-encode", "evaluate")),
    "/review?run=latest&reviewer=ada",
    "/sql?sql=FROM+runs",
]
"""Every page, and the views of it that need no id."""
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """`vitalfew ui` of a copy of the store."""

    def make(folder: Path) -> None:
        store = vf.Store(folder / "store", progress=False)
        store.index("demo", "python_manual", settings={"bm25": {"enabled": True}}, runner="serial")
        store.evaluate("quickstart", "demo", settings={"questions": {"sample": 30}, "choose": None}, runner="serial")

    made = os.environ.get("VITALFEW_DEMO") or shared("demo", make) / "store"
    served = Ui(copied(Path(made), tmp_path_factory.mktemp("pages") / "store"))
    served.start()
    yield served
    served.end()


@pytest.fixture(scope="module")
def context(ui: Ui) -> Iterator[Any]:
    """A browser that a link has let in."""
    with chromium() as browser:
        context = browser.new_context(viewport=DESK)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.goto(ui.link())
        page.get_by_role("heading", name="Ask", exact=True).wait_for()
        page.close()
        yield context


@pytest.fixture
def page(context: Any, ui: Ui) -> Iterator[Any]:
    """A page whose errors and requests are looked at afterwards."""
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    page.close()
    assert said == []
    assert [
        url for url in asked if not url.startswith((ui.address, ui.address.replace("http", "ws"), "data:", "blob:"))
    ] == []


def opened(page: Any, ui: Ui, path: str) -> Any:
    """Open a page, and wait until it has read what it shows."""
    page.goto(f"{ui.address}/vitalfew{path}")
    page.locator("h1").wait_for()
    page.wait_for_function("window.socket?.connected && !document.querySelector('[role=status] .q-spinner')")
    return page


def findings(page: Any) -> list[str]:
    """What axe-core finds serious, with the elements."""
    from axe_core_python.sync_playwright import Axe

    found = Axe().run(page)["violations"]
    return [
        f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in SERIOUS
    ]


@pytest.mark.parametrize("path", VIEWS)
def test_a_page(page: Any, ui: Ui, path: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("VITALFEW_SCREENSHOTS", tmp_path))
    name = path.strip("/").replace("/", "-").replace("?", "-").replace("&", "-").replace("=", "-") or "ask"
    opened(page, ui, path)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    print(f"{path}: first contentful paint after {paint:.0f} ms")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"document.body.classList.contains('body--dark') === {str(scheme == 'dark').lower()}")
        assert findings(page) == [], scheme
        page.screenshot(path=folder / f"{name}-{scheme}.png", full_page=True)
    page.set_viewport_size(PHONE)
    page.screenshot(path=folder / f"{name}-phone.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.locator("header").bounding_box()["height"] < 70  # the links are on one line
