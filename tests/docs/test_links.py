"""Links of the pages outside of docs/ lead somewhere; those of docs/ are checked by `make docs`."""

import re

from tests.support.documents import ROOT

LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")


def test_links_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "tasks" / "models" / "weights").rglob("*.md")]
    links = [(page, target) for page in pages for target in LINK.findall(page.read_text(encoding="utf-8"))]
    assert len(links) > 20
    assert not [(page.name, target) for page, target in links if not (page.parent / target).exists()]
