"""Links of the pages outside of docs/ lead somewhere; those of docs/ are checked by `make docs`."""

import re

from tests.support.documents import ROOT

LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")


<<<<<<< HEAD
def test_links_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "tasks" / "models" / "weights").rglob("*.md")]
    links = [(page, target) for page in pages for target in LINK.findall(page.read_text(encoding="utf-8"))]
    assert len(links) > 20
    assert not [(page.name, target) for page, target in links if not (page.parent / target).exists()]
=======
def links(text: str) -> Iterator[str]:
    """The targets of the links and pictures of a page that lead to the repository; no code is one."""
    for token in MarkdownIt().enable("table").parse(text):
        for inner in token.children or ():
            target = str(inner.attrs.get("href") or inner.attrs.get("src") or "")
            if target and not re.match(r"[a-z]+:", target):
                yield target


@cache
def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as code hosts and the site make them."""
    names: list[str] = []
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            words = "".join(part.content for part in content.children or ())
            name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            names.append(f"{name}-{names.count(name)}" if name in names else name)
    return set(names)


def broken(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    there = (page.parent / path) if path else page
    return not there.exists() or (bool(anchor) and (there.suffix != ".md" or anchor not in anchors(there)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = [target for target in links(page.read_text(encoding="utf-8")) if broken(page, target)]
    assert not dead, f"{page.relative_to(ROOT)} links to what is not there: {', '.join(dead)}"
>>>>>>> h-t6
