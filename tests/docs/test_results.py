"""Figures of the summary and of the README stand in a page of results, a grid or the records of runs."""

import csv
import json
import re

from docs import pictures
from tests.support.documents import ROOT
from vitalfew.tasks.reports.plots.forest import figures as figures_of

RESULTS = ROOT / "docs" / "results"
GRIDS = sorted((RESULTS / "grids").glob("*.csv"))
INTERVAL = r"\([+-]?\d\.\d{3} to [+-]?\d\.\d{3}\)"
FIGURE = re.compile(rf"[+-]?\b\d\.\d{{3}}\b(?: {INTERVAL})?")


def figures(text: str) -> set[str]:
    """Figures with three decimals, with their intervals, outside of blocks of code: "-0.010 (-0.050 to +0.020)"."""
    without_code = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return set(FIGURE.findall(" ".join(without_code.replace("*", "").split())))


def recorded() -> set[str]:
    found = set()
    for page in [*RESULTS.glob("*.md"), *GRIDS]:
        if page.name != "index.md":
            found |= figures(page.read_text(encoding="utf-8"))
    methods = json.loads((RESULTS / "methods.json").read_bytes())
    found |= {f"{each['mean']:.3f}" for each in methods}
    runs = json.loads((RESULTS / "papers.json").read_bytes())
    ours = [(each["minus"], each) for each in methods if "minus" in each]
    ours += [(line["mean"], line) for run in runs for line in run["lines"]]
    for value, each in ours:
        if "low" in each:
            found.add(f"{value:+.3f} ({each['low']:+.3f} to {each['high']:+.3f})")
            found.add(f"{value:.3f} ({each['low']:.3f} to {each['high']:.3f})")
    return found


def test_every_figure_of_the_summary_was_recorded() -> None:
    said = figures((RESULTS / "index.md").read_text(encoding="utf-8"))
    assert len(said) > 20
    assert not said - recorded()


def test_a_page_links_every_grid_and_a_grid_is_a_table() -> None:
    pages = [*RESULTS.glob("*.md"), *(ROOT / "docs" / "explanation").glob("*.md")]
    linked = {name for page in pages for name in re.findall(r"grids/(\w+\.csv)\)", page.read_text(encoding="utf-8"))}
    assert {grid.name for grid in GRIDS} == linked
    for grid in GRIDS:
        head, *rows = csv.reader(grid.read_text(encoding="utf-8").splitlines())
        assert rows, grid.name
        assert len({*head}) == len(head), grid.name
        assert {len(row) for row in rows} == {len(head)}, grid.name


def test_pages_are_short_enough_to_be_read() -> None:
    words = {page: len(page.read_text(encoding="utf-8").split()) for page in RESULTS.glob("*.md")}
    assert words.pop(RESULTS / "index.md") <= 900
    assert {page.name: count for page, count in words.items() if count > 750} == {}


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_quotes_one_recorded_run() -> None:
    printed = json.loads((RESULTS / "front.json").read_bytes())["printed"]
    assert {*re.findall(r"<!-- printed: (\w+) -->", README)} == {*printed}
    assert pictures.filled(README, printed) == README


def test_the_plot_of_the_readme_shows_the_recorded_differences() -> None:
    drawn = " ".join((ROOT / "docs" / "images" / "spans.svg").read_text(encoding="utf-8").split())
    rows = pictures.differences(json.loads((RESULTS / "methods.json").read_bytes()))
    assert len(rows) > 5
    assert [row for row in rows if f"{row.label}: {figures_of(row)}." not in drawn] == []


def test_the_readme_is_short_and_begins_with_words() -> None:
    before = README[: README.index("```sh")]
    assert len(README.split()) <= 700
    assert len(before.split()) <= 130
    assert not re.search(r"\d", before)
