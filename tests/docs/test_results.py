"""Figures of the summaries stand in a recorded results file: on a page, or among the records of runs."""

import json
import re

import pytest

from tests.support.documents import ROOT

RESULTS = ROOT / "docs" / "results"
INTERVAL = r"\([+-]?\d\.\d{3} to [+-]?\d\.\d{3}\)"
FIGURE = re.compile(rf"[+-]?\b\d\.\d{{3}}\b(?: {INTERVAL})?")


def figures(text: str) -> set[str]:
    """Figures with three decimals, with their intervals, outside of blocks of code: "-0.010 (-0.050 to +0.020)"."""
    without_code = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return set(FIGURE.findall(" ".join(without_code.replace("*", "").split())))


def recorded() -> set[str]:
    found = set()
    for page in [*RESULTS.glob("*.md"), ROOT / "docs" / "spans.md"]:
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


@pytest.mark.parametrize("name", ["README.md", "docs/results/index.md"])
def test_every_figure_of_a_summary_was_recorded(name: str) -> None:
    said = figures((ROOT / name).read_text(encoding="utf-8"))
    assert len(said) > 20
    assert not said - recorded()
