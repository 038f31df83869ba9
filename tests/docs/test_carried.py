"""No page says of a paper's experiment what no recorded run of it carries.

A figure is one with an interval: "+0.115 (+0.085 to +0.144)", "-0.003, -0.026 to +0.020". Below a heading a line says
where what follows comes from (*command · machine · date · commit*): from experiments that it names, or from another
command, which is about no paper. A paragraph may name further experiments. A figure is carried if papers.json has its
interval for one of them, and its value where that stands directly before it, whichever method is subtracted.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from docs.measured import measured
from docs.methods import compared
from tests.support.documents import ROOT
from vitalfew.configs.paper import papers

RESULTS = ROOT / "docs" / "results"
PAGES = [*sorted({*RESULTS.glob("*.md")} - {RESULTS / "index.md"}), ROOT / "docs" / "spans.md"]
EXPERIMENTS = {name for paper in papers().values() for item in paper.items for name in item.experiments}
NUMBER = r"[+-]?\d\.\d{3}"
FIGURE = re.compile(rf"(?:({NUMBER})\*{{0,2}})?(?: \(|\(|, )({NUMBER}) to ({NUMBER})")
SOURCE = re.compile(r"^\*(?!\*)[^*]+\*$", re.MULTILINE)
HALF = 0.0006
"""Half a digit of the pages and records, and a little for binary fractions."""

NOT_RECORDED = {
    "answers.md": """
        0.015 (-0.013 to 0.043)
        +0.030 (0.003 to 0.057)
        +0.041 (0.014 to 0.067)
        +0.042 (0.016 to 0.068)
        +0.043 (0.019 to 0.068)
        +0.032 (0.006 to 0.059)
        +0.038 (0.011 to 0.064)
        +0.067 (0.010 to 0.123)
        +0.047 (-0.007 to 0.100)
        +0.020 (-0.030 to 0.070)
    """,
    "contexts.md": """
        (0.011 to 0.035)
        0.014 (0.002 to 0.026)
        0.004 (-0.006 to 0.014)
    """,
    "oreo.md": """
        +0.095 (+0.062 to +0.127)
        +0.024 (+0.003 to +0.045)
        -0.020 (-0.080 to +0.040)
        0.000 (-0.037 to +0.037)
        0.033 (0.002 to 0.065)
        +0.006 (-0.005 to +0.018)
        (+0.014 to +0.053)
        (+0.018 to +0.060)
        +0.087 (+0.041 to +0.136)
        -0.024 (-0.072 to +0.025)
        -0.107 (-0.153 to -0.066)
        -0.042 (-0.096 to +0.006)
        -0.002 (-0.022 to +0.022)
        -0.035 (-0.090 to +0.020)
        0.076 (+0.040 to +0.113)
        +0.017 (-0.035 to +0.070)
        +0.005 (-0.040 to +0.050)
        +0.135 (+0.065 to +0.205)
        +0.080 (+0.015 to +0.145)
        +0.120 (+0.050 to +0.190)
        (-0.040 to +0.080)
    """,
    "pfe_self_rag.md": """
        -0.040 (-0.067 to -0.017)
        -0.053 (-0.087 to -0.020)
        -0.043 (-0.077 to -0.010)
        -0.073 (-0.110 to -0.040)
        -0.037 (-0.063 to -0.010)
        -0.037 (-0.067 to -0.010)
        -0.053 (-0.083 to -0.023)
        -0.017 (-0.040 to 0.003)
        -0.023 (-0.050 to 0.000)
        -0.033 (-0.060 to -0.010)
        -0.010 (-0.027 to 0.003)
        -0.010 (-0.027 to 0.007)
        -0.007 (-0.027 to 0.010)
        +0.007 (-0.007 to 0.020)
        +0.003 (-0.007 to 0.017)
        +0.010 (-0.003 to 0.027)
        +0.058 (0.038 to 0.078)
        +0.120 (0.086 to 0.154)
        +0.023 (0.003 to 0.042)
        -0.002 (-0.024 to 0.020)
        -0.002 (-0.010 to 0.006)
        +0.004 (-0.006 to 0.014)
        -0.003 (-0.011 to 0.005)
        +0.004 (-0.004 to 0.012)
        -0.001 (-0.009 to 0.007)
        +0.000 (-0.010 to 0.010)
    """,
    "sparse_rag.md": """
        +0.289 (+0.241 to +0.339)
        -0.050 (-0.106 to +0.007)
        +0.019 (-0.032 to +0.070)
        +0.040 (-0.010 to +0.089)
        +0.059 (-0.009 to +0.130)
        +0.008 (-0.060 to +0.079)
        +0.101 (+0.007 to +0.196)
        +0.070 (-0.026 to +0.168)
    """,
}
"""Figures of runs that nobody recorded, until 26 November 2026. Record new runs (`python -m docs.measured`) instead of
adding to this list; what is recorded, or no longer said, goes from it."""


class Said(NamedTuple):
    """A figure on a page. `about`: the experiments that it may be of; None: of no paper's."""

    about: frozenset[str] | None
    value: float | None
    low: float
    high: float
    text: str


def figures(page: str) -> Iterator[Said]:
    """The figures of a page, outside of code."""
    about: frozenset[str] | None = None
    for paragraph in re.split(r"\n\s*\n", re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)):
        if source := SOURCE.search(paragraph):
            of = EXPERIMENTS & {*re.findall(r"\w+/\w+", source[0])}
            about = None if not of and "`" in source[0] else frozenset(of)
        named = EXPERIMENTS & {*re.findall(r"`(\w+/\w+)`", paragraph)}
        for value, low, high in FIGURE.findall(" ".join(paragraph.split())):
            text = f"{value} ({low} to {high})".strip()
            yield Said(
                (about or frozenset()) | named if named or about is not None else None,
                float(value) if value else None,
                float(low),
                float(high),
                text,
            )


def is_among(said: Said, numbers: Iterable[tuple[float | None, float, float]]) -> bool:
    """Whether it is one of these values with their intervals, with either sign."""
    for value, low, high in numbers:
        for ours in ((value, low, high), (None if value is None else -value, -high, -low)):
            wanted = (said.value, said.low, said.high)
            if all(a is None or b is None or abs(a - b) < HALF for a, b in zip(ours, wanted, strict=True)):
                return True
    return False


def recorded(experiments: Iterable[str]) -> Iterator[tuple[float | None, float, float]]:
    wanted = {*experiments}
    for line in (line for run in measured() if run.experiment in wanted for line in run.lines):
        if line.low is not None and line.high is not None:
            yield line.mean, line.low, line.high


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_of_a_papers_experiment_was_recorded(page: Path) -> None:
    of_papers = [said for said in figures(page.read_text(encoding="utf-8")) if said.about is not None]
    missing = [said.text for said in of_papers if not is_among(said, recorded(said.about or ()))]
    listed = [line.strip() for line in NOT_RECORDED.get(page.name, "").splitlines() if line.strip()]
    assert not (new := [text for text in missing if text not in listed]), f"no recorded run carries {', '.join(new)}"
    assert not (old := [text for text in listed if text not in missing]), f"take from NOT_RECORDED: {', '.join(old)}"


@pytest.mark.parametrize("name", ["README.md", "docs/results/index.md"])
def test_what_a_summary_says_stands_on_a_page_or_was_recorded(name: str) -> None:
    pages = [(said.value, said.low, said.high) for page in PAGES for said in figures(page.read_text(encoding="utf-8"))]
    methods = [
        (each.minus, each.low, each.high) for each in compared() if each.low is not None and each.high is not None
    ]
    known = [*recorded(EXPERIMENTS), *pages, *methods]
    said = [*figures((ROOT / name).read_text(encoding="utf-8"))]
    assert said
    assert not (new := [each.text for each in said if not is_among(each, known)]), f"nothing carries {', '.join(new)}"


def test_a_figure_that_is_not_recorded_is_told_from_one_that_is() -> None:
    page = """# Oreo
        *`vitalfew evaluate oreo/embedded` · a machine*

        | passage | +0.115 (+0.085 to +0.144) | or, the other way round, -0.115, -0.144 to -0.085 |
        | passage | **+0.125** (+0.085 to +0.144) | and (+0.085 to +0.155) |

        ## Another
        *`make bench` · a machine*

        0.5 (0.400 to 0.600) is of no paper; with `oreo/figure3` it would be (0.400 to 0.700).

        *Command not recorded · a machine*

        0.500 (0.400 to 0.600)
        """.replace("\n        ", "\n")
    said = list(figures(page))
    assert [is_among(each, recorded(each.about or ())) for each in said[:4]] == [True, True, False, False]
    assert [each.about for each in said] == [{"oreo/embedded"}] * 4 + [{"oreo/figure3"}] * 2 + [frozenset()]
