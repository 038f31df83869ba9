"""The pages in a real browser, on the demo's experiment with fewer questions on a small corpus: `make test-ui`.

Every page and every view of it: no error on the console, no request to another host, nothing serious for axe-core in
light or dark, nothing wider than a phone; and every button, pressed once. `VITALFEW_SCREENSHOTS`: a folder of pictures;
`VITALFEW_DEMO_STORE`: a store that `vitalfew demo` has made, to look at.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import vitalfew as vf
from tests.golden.valley import write_valley
from tests.support.evaluating import copied
from tests.support.prefect_ui import PATIENCE, Ui
from tests.support.shared import shared
from vitalfew.pages.shell import PAGES
from vitalfew.storage.runs import read_runs

pytestmark = pytest.mark.slow

CHROMIUM = Path("/usr/bin/chromium")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
VIEWS = [
    *(page.path for page in PAGES if page.title != "SQL"),
    "/results?run=latest",
    "/results?run=latest&view=questions&method=naive+RAG&other=ParetoRAG",
    "/results?run=latest:naive+RAG&other=latest:ParetoRAG",
    "/ask?question=What+is+a+finally+clause%3F&method=quickstart%3AParetoRAG&method=quickstart%3Anaive+RAG",
    "/corpora?index=demo",
    "/corpora?index=demo&generation=1",
    *(f"/corpora?start={flow}" for flow in ("index-corpus", "re-encode", "evaluate")),
    "/review?run=latest&reviewer=ada",
    "/sql?sql=FROM+runs",
]
"""Every page, and the views of it that need no id."""
STARTS = ("Start", "Schedule")
"""Buttons that start a run: `test_an_evaluation_is_started_and_followed_to_its_results` presses one."""
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """`vitalfew ui` of a copy of the store."""

    def make(folder: Path) -> None:
        folder.mkdir()
        store = vf.Store(folder / "store", progress=False)
        corpus = write_valley(folder / "valley.json")
        store.index("demo", f"squad:{corpus}", settings={"bm25": {"enabled": True}}, runner="serial")
        store.evaluate("quickstart", "demo", settings={"questions": {"sample": 20}, "choose": None}, runner="serial")

    made = os.environ.get("VITALFEW_DEMO_STORE") or shared("demo", make) / "store"
    served = Ui(copied(Path(made), tmp_path_factory.mktemp("pages") / "store"))
    served.start()
    yield served
    log = served.log("server")
    served.end()
    assert "/vitalfew/pages/" not in log, log[-4000:]  # lines of tracebacks: of what a browser does not hear of


@pytest.fixture(scope="module")
def context(ui: Ui) -> Iterator[Any]:
    """A browser that a link has let in."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: make setup-tests")
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        context = browser.new_context(viewport=DESK)
        context.set_default_timeout(1000 * PATIENCE)
        page = context.new_page()
        page.goto(ui.link())
        page.get_by_role("heading", name="Overview", exact=True).wait_for()
        page.close()
        yield context
        browser.close()


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
    own = (ui.address, ui.address.replace("http", "ws"), "data:", "blob:")
    assert [url for url in asked if not url.startswith(own)] == []


def opened(page: Any, ui: Ui, path: str) -> None:
    """Open a page, and wait until it has read what it shows."""
    page.goto(f"{ui.address}/vitalfew{path}")
    page.locator("h1").wait_for()
    settle(page)


def settle(page: Any) -> None:
    """Wait until a page has read what it shows."""
    page.wait_for_function("window.socket?.connected && !document.querySelector('[role=status] .q-spinner')")


def findings(page: Any) -> list[str]:
    """What axe-core finds serious, with the elements."""
    from axe_core_python.sync_playwright import Axe

    serious = [each for each in Axe().run(page)["violations"] if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {[(node['html'], node['failureSummary']) for node in each['nodes']]}" for each in serious]


@pytest.mark.parametrize("path", VIEWS)
def test_a_page(page: Any, ui: Ui, path: str, tmp_path: Path) -> None:
    opened(page, ui, path)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    print(f"{path}: first contentful paint after {paint:.0f} ms")
    name = path.strip("/").replace("/", "-").replace("?", "-").replace("&", "-").replace("=", "-") or "overview"
    look(page, name, tmp_path)
    pressed = press_every_button(page, ui, path)
    print(f"pressed: {', '.join(pressed)}")


def test_a_question_that_a_method_loses(page: Any, ui: Ui, tmp_path: Path) -> None:
    """In three clicks from the list of evaluations."""
    opened(page, ui, "/results")
    page.locator("td a").first.click()
    page.locator("td:nth-child(7) a", has_text=re.compile("[1-9]")).first.click()  # lost
    page.locator("td a").first.click()
    page.get_by_text("Why: ").first.wait_for()
    page.get_by_role("heading", name=": right").first.wait_for()
    look(page, "question", tmp_path)
    page.locator("summary").first.click()


def test_an_evaluation_is_started_and_followed_to_its_results(page: Any, ui: Ui) -> None:
    """From the form, whose lists have the names that there are, by a wrong value and a right one."""
    opened(page, ui, "/corpora?start=evaluate")
    offered = page.get_by_role("combobox", name="Experiment").locator("option")
    offered.first.wait_for(state="attached")
    assert "quickstart" in offered.all_inner_texts()
    page.get_by_role("combobox", name="Index").select_option("demo")
    page.get_by_label("Sample", exact=True).fill("6")
    page.get_by_text("More settings").click()
    page.get_by_label("More (one per line)").fill("generate.generator=tests.support.fakes:FirstWords")
    page.get_by_label("Alpha", exact=True).fill("2")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("Alpha: Input should be less than or equal to 1").wait_for()
    page.get_by_label("Alpha", exact=True).fill("0.3")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/vitalfew/corpora?run=*")
    run = page.url.partition("run=")[2]
    page.get_by_role("link", name="Results of the evaluation").click()
    page.wait_for_url("**/vitalfew/results?run=*")
    page.locator("td").first.wait_for()
    shown_by_prefect(ui, run)


def shown_by_prefect(ui: Ui, run: str) -> None:
    """The report with its plots, and the costs, are artifacts of the run."""
    assert ui.ended(run)["type"] == "COMPLETED"
    found = {each["key"]: each for each in ui.artifacts(run) if each["key"]}
    assert r"| ParetoRAG \(late\) |" in found["report"]["data"]
    assert str(ui.store / "reports") in found["report"]["data"]
    plots = [each for key, each in found.items() if key.startswith("plot-")]
    assert plots
    assert all(re.match(r"!\[.+\]\(data:image/svg\+xml;base64,[\w+/=]+\)$", each["data"]) for each in plots)
    assert {"stage", "USD", "estimated USD"} <= set(json.loads(found["costs"]["data"])[0])
    methods = {each["name"]: each for each in read_runs(ui.store)[-1].config["methods"]}
    assert methods["ParetoRAG"]["retrieve"]["alpha"] == 0.3


def look(page: Any, name: str, folder: Path) -> None:
    """See a page in light and dark, and on a phone."""
    pictures = Path(os.environ.get("VITALFEW_SCREENSHOTS", folder))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"document.body.classList.contains('body--dark') === {str(scheme == 'dark').lower()}")
        for _ in range(10):  # colours fade in, on a busy machine for seconds
            if not (found := findings(page)):
                break
            page.wait_for_timeout(1000)
        assert found == [], scheme
        page.screenshot(path=pictures / f"{name}-{scheme}.png", full_page=True)
    page.set_viewport_size(PHONE)
    page.screenshot(path=pictures / f"{name}-phone.png", full_page=True)
    page.wait_for_function(f"document.documentElement.scrollWidth <= {PHONE['width']}")
    # All links are there, on two lines.
    page.wait_for_function("document.querySelector('header').getBoundingClientRect().height < 80")
    page.set_viewport_size(DESK)


def press_every_button(page: Any, ui: Ui, path: str) -> list[str]:
    """Press what can be pressed and was not yet, by its name, until nothing is left: what one brings up, too. Of long
    lists only the first few."""
    from playwright.sync_api import TimeoutError as Covered

    pressed: list[str] = []
    withheld = 0
    while True:
        dialog = ".q-dialog " if page.locator(".q-dialog:visible").count() else ""
        buttons = page.locator(f"{dialog}button:visible:enabled, {dialog}details:nth-of-type(-n + 5) > summary:visible")
        names = buttons.evaluate_all(
            "all => all.map(each => (each.ariaLabel || each.innerText.trim()).split('\\n')[0])"
        )
        left = [place for place, name in enumerate(names) if name and name not in (*pressed, *STARTS)]
        if dialog and not left:
            page.keyboard.press("Escape")
            page.locator(".q-dialog").first.wait_for(state="detached")
            continue
        if not left:
            return pressed
        name = names[left[0]]
        try:
            with page.expect_download(timeout=30_000) if name.startswith("Download") else nullcontext():
                buttons.nth(left[0]).click(timeout=5_000)
                pressed.append(name)
        except Covered:  # by a dialog that has just come up: that is the next
            if name in pressed:  # Chromium may withhold a file that comes long after its click
                pressed.remove(name)
                withheld += 1
                assert withheld < 5, f"{name} gives no file"
        settle(page)
        if page.url != f"{ui.address}/vitalfew{path}":
            opened(page, ui, path)
