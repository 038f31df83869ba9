"""docs/papers.md lists what there is: every experiment that repeats a paper, and none that does not exist."""

import re

from tests.support.documents import ROOT
from vitalfew.flows.pipelines.experiments import find, names

PAPERS = ROOT / "docs" / "papers.md"
SECTIONS = {"ParetoRAG": "paretorag/", "PFE-Self-RAG": "pfe_self_rag/", "Sparse RAG": "sparse_rag/", "Oreo": "oreo/"}


def test_every_experiment_of_a_paper_is_in_its_section_and_every_named_one_exists() -> None:
    sections = re.split(r"^## ", PAPERS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = {section.partition("\n")[0]: set(re.findall(r"`(\w+/\w+)`", section)) for section in sections}
    for title, folder in SECTIONS.items():
        repeating = {name for name in names() if name.startswith(folder) and "repeats" in find(name)[1]}
        assert repeating <= named[title], f"docs/papers.md, {title}, lacks {repeating - named[title]}"
    assert {name for found in named.values() for name in found} <= set(names())


def test_an_experiment_that_repeats_something_belongs_to_a_paper() -> None:
    repeating = [name for name in names() if "repeats" in find(name)[1]]
    assert all(name.startswith(tuple(SECTIONS.values())) for name in repeating), repeating
