"""Draws the pictures of README.md and of the how-to pages, and records what README.md quotes: `make pictures`.

One run, in a folder of its own, by the commands that a user types: the demo, and a handbook (this repository's how-to
pages) whose second build has lost three files, so that its gate holds it. What was printed goes to
docs/results/front.json and from there into README.md, below its marks `<!-- printed: NAME -->`. Needs chromium, and
takes about five minutes.
"""

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vitalfew.tasks.reports.plots.drawing import standing_alone
from vitalfew.tasks.reports.plots.forest import ForestRow, Kind, forest

ROOT = Path(__file__).parents[1]
IMAGES, RESULTS, README = ROOT / "docs" / "images", ROOT / "docs" / "results", ROOT / "README.md"
CHROMIUM = "/usr/bin/chromium"
DESK = {"width": 1280, "height": 760}
READER, FEW = "reader", 200
"""Who answered, and the questions below which a corpus is drawn in grey."""
AGAINST = {"ten passages": "ten whole passages", "naive RAG": "passages cut to 300 tokens"}
"""What 300 tokens of spans are compared with, in the order of the plot."""
METHODS = 5
"""The demo's."""
STATEMENT = "SELECT stage, sum(cpu_seconds) AS seconds FROM costs GROUP BY stage ORDER BY seconds DESC LIMIT 3"
GATED = """datasets: ["folder:handbook"]
gate: {questions: "written:handbook", margins: {passage_recall@10: 0.1}, approve: on_doubt}
"""
LOST = ("train.md", "check.md", "serve.md")
VIEWS = {
    "page_overview": ("/", "", "td"),
    "page_ask": (
        "/ask?question=What+does+a+finally+clause+do+with+a+return%3F&method=demo%3Aspans&method=demo%3Anaive+RAG",
        "Ask",
        "dl.figures >> nth=1",
    ),
    "page_results": ("/results?run=demo", "", "img[src^='data:image/svg']"),
    "page_sql": ("/sql?sql=FROM+worst(of_metric+:%3D+'accuracy',+of_method+:%3D+'spans')", "Run", "td"),
    "page_review": ("/review?run=demo&reviewer=ada", "", "div.keys button"),
    "page_generation": ("/corpora?index=handbook&generation=2", "", "text=Did it get worse?"),
    "page_corpora": ("/corpora?index=handbook", "", "td"),
    "page_costs": ("/costs", "", "td"),
}
"""Of each picture: the page, the button to press, if any, and what is there when it has been drawn."""


def filled(page: str, printed: Mapping[str, str]) -> str:
    """Return a page of Markdown with what was printed in the block below each mark `<!-- printed: NAME -->`."""
    for name, text in printed.items():
        block = re.compile(rf"(<!-- printed: {name} -->\n+```\w*\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
        page = block.sub(lambda found, text=text: f"{found[1]}{text}\n", page)
    return page


def differences(recorded: list[dict[str, Any]]) -> list[ForestRow]:
    """300 tokens of spans minus ten whole passages, then minus cut ones: a row for each corpus and who answered."""
    rows = [each for each in recorded if each.get("baseline") in AGAINST]
    rows.sort(key=lambda each: ([*AGAINST].index(each["baseline"]), each["answerer"] != READER, -each["minus"]))
    return [
        ForestRow(_label(each), each["minus"], each["low"], each["high"], each["questions"], _kind(each))
        for each in rows
    ]


def _label(each: dict[str, Any]) -> str:
    return f"{each['corpus']}: {AGAINST[each['baseline']]}"


def _kind(each: dict[str, Any]) -> Kind:
    if each["answerer"] != READER:
        return "hollow"
    return "grey" if each["questions"] < FEW else "filled"


def vitalfew(folder: Path, *words: str, status: int = 0) -> str:
    """Run a command in a folder and return what it printed. Raises RuntimeError if it ends with another status."""
    done = subprocess.run(
        [sys.executable, "-m", "vitalfew.flows.cli", *words], cwd=folder, capture_output=True, text=True,
        env=_environment(folder), check=False,
    )  # fmt: skip
    if done.returncode != status:
        raise RuntimeError(f"vitalfew {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def _environment(folder: Path) -> dict[str, str]:
    own = {
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    return {**{name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}, **own}


def run(folder: Path) -> dict[str, str]:
    """Fill the store of a folder, and return what README.md quotes, by the name of its mark."""
    demo = vitalfew(folder, "demo")
    table = [line.rstrip() for line in demo.splitlines()]
    heads = table.index(next(line for line in table if line.startswith("method ")))
    shown = table[heads - 2 : heads + 1 + METHODS]
    rows = vitalfew(folder, "sql", STATEMENT).strip("\n").splitlines()
    pages = folder / "handbook"
    shutil.copytree(ROOT / "docs" / "how_to", pages)
    vitalfew(folder, "index", "folder:handbook", "--name", "handbook")
    vitalfew(folder, "questions", "write", "--index", "handbook")
    (folder / "corpora").mkdir()
    (folder / "corpora" / "handbook.yaml").write_text(GATED, encoding="utf-8")
    for name in LOST:
        (pages / name).unlink()
    held = vitalfew(folder, "index", "--corpus", "handbook", status=4)
    [verdict] = [line.strip().rstrip(";") for line in held.splitlines() if " is held: " in line]
    return {"demo": "\n".join(shown), "verdict": verdict, "sql": "\n".join(line.rstrip() for line in rows)}


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """`vitalfew ui` of the folder's store: its address, and the link that opens it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-u", "-m", "vitalfew.flows.cli", "ui", "--port", str(port)]
    with subprocess.Popen(command, cwd=folder, env=_environment(folder), text=True, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout
            printed = next(line for line in server.stdout if "http" in line)
            yield f"http://127.0.0.1:{port}/vitalfew", re.findall(r"http\S+", printed)[0]
        finally:
            server.terminate()


def photograph(folder: Path) -> None:
    """Write a picture of every view, and of the top of the demo's report."""
    from playwright.sync_api import sync_playwright

    with served(folder) as (address, link), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=DESK)
        page.set_default_timeout(300_000)
        page.goto(link)
        page.locator("h1").wait_for()
        for name, (path, button, drawn) in VIEWS.items():
            page.goto(f"{address}{path}")
            if button:
                page.get_by_role("button", name=button, exact=True).click()
            page.locator(drawn).first.wait_for()
            page.wait_for_function("window.socket?.connected && !document.querySelector('[role=status] .q-spinner')")
            page.screenshot(path=IMAGES / f"{name}.png")
        page.goto(f"{address}/results?run=demo&view=questions&method=spans&other=naive+RAG")
        page.locator("td a").first.click()
        page.get_by_text("Why: ").first.wait_for()
        page.screenshot(path=IMAGES / "page_question.png")
        reports = (folder / "store" / "reports").glob("*/report.html")
        [report] = [path for path in reports if "answers best on demo" in path.read_text(encoding="utf-8")]
        page.goto(report.as_uri())
        page.screenshot(path=IMAGES / "report.png")
        browser.close()


def draw() -> None:
    """Draw the plot at the top of README.md from docs/results/methods.json."""
    recorded = json.loads((RESULTS / "methods.json").read_bytes())
    meant: dict[Kind, str] = {
        "filled": "answered by the bundled reader",
        "grey": f"the same, fewer than {FEW} questions",
        "hollow": "answered by qwen2.5-coder-0.5b-instruct",
    }
    axis = "accuracy of 300 tokens of spans minus accuracy of the passages named (95 % interval)"
    plot = forest(differences(recorded), "300 tokens of spans against passages", axis, "", meant)
    (IMAGES / "spans.svg").write_text(standing_alone(plot.svg), encoding="utf-8")


def main() -> None:
    draw()
    with TemporaryDirectory() as made:
        printed = run(Path(made))
        photograph(Path(made))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    run_of = {
        "date": date.today().isoformat(),
        "commit": commit.stdout.strip(),
        "machine": platform.processor() or platform.machine(),
    }
    record = {**run_of, "python": platform.python_version(), "command": "make pictures", "printed": printed}
    (RESULTS / "front.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    README.write_text(filled(README.read_text(encoding="utf-8"), printed), encoding="utf-8")


if __name__ == "__main__":
    main()
