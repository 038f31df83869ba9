"""HTML as blocks, by selectolax: what a reader of the page sees of its main part, without navigation."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument, heading_of_all

_UNSHOWN = (
    "script, style, noscript, template, nav, aside, form, button, svg, iframe, dialog, [hidden], [aria-hidden=true], "
    "[role=navigation], [role=search], body > header, body > footer, a.headerlink, a.anchor"
)
"""Elements that are not shown, or lead elsewhere."""
_MAIN = ("main", "[role=main]", "article")
_INLINE = set(
    re.findall(
        r"\w+",
        """a abbr b bdi bdo big br cite code data del dfn em font i img ins kbd label mark q s samp small span strike
        strong sub sup time tt u var wbr""",
    )
)
_GROUPS: Mapping[str, int] = {"pre": 0, "table": 0, "ul": 0, "ol": 0} | {f"h{level}": level for level in range(1, 7)}
"""The elements that are a block with all that they hold, with the level of a heading."""
_DEEPEST = 500
"""Elements that a text stands in at most; of a deeper one the nearest count."""


def read_html(content: str) -> ReadDocument:
    """Read a page. Its `<title>`, which often names the site too, counts where no heading stands above all others."""
    tree = LexborHTMLParser(content)
    named = tree.css_first("title")
    title = _spaced(named.text()) if named else ""
    for node in tree.css(_UNSHOWN):
        node.decompose()
    roots = [found[0] for selector in _MAIN if len(found := tree.css(selector)) == 1]
    blocks = [*_blocks(roots[0] if roots else tree.body)] if roots or tree.body else []
    return ReadDocument(blocks, "" if heading_of_all(blocks) else title)


def _blocks(root: Any) -> Iterator[Block]:
    held, texts = None, list[str]()
    for node in root.traverse(include_text=True):
        if node.tag != "-text" or not node.text().strip():
            continue
        block = _block_of(node, root)
        if held is None or block.mem_id != held.mem_id:
            yield from _made(held, texts)
            held, texts = block, []
        texts.append(node.text())
    yield from _made(held, texts)


def _block_of(text: Any, root: Any) -> Any:
    """The element that a text is shown in: the outermost one of _GROUPS, else the nearest that is not inline."""
    nearest = group = None
    node, depth = text.parent, 0
    while node is not None and depth < _DEEPEST:
        if node.tag in _GROUPS:
            group = node
        if nearest is None and node.tag not in _INLINE:
            nearest = node
        if node.mem_id == root.mem_id:
            break
        node, depth = node.parent, depth + 1
    return group or nearest or root


def _made(element: Any, texts: list[str]) -> Iterator[Block]:
    """The block of an element. `texts`: those in it; of a group, all of them follow one another."""
    if element is None:
        return
    if element.tag == "pre":
        yield Block(element.text().strip("\n"), is_whole=True)
    elif element.tag == "table":
        rows = (" | ".join(_spaced(cell.text()) for cell in row.css("th, td")) for row in element.css("tr"))
        yield Block("\n".join(filter(None, rows)) or _spaced(" ".join(texts)), is_whole=True)
    elif element.tag in ("ul", "ol"):
        yield Block("\n".join(f"- {item}" for item in _items(element)))
    elif text := _spaced("".join(texts)):
        yield Block(text, _GROUPS.get(element.tag, 0))


def _items(element: Any) -> list[str]:
    """The texts of a list's items; an item in an item comes after it."""
    found = dict[int, list[str]]()
    for node in element.traverse(include_text=True):
        if node.tag == "-text" and node.text().strip():
            item, depth = node.parent, 0
            while item.tag != "li" and item.mem_id != element.mem_id and depth < _DEEPEST:
                item, depth = item.parent, depth + 1
            found.setdefault(item.mem_id, []).append(node.text())
    return [_spaced("".join(texts)) for texts in found.values()]


def _spaced(text: str | None) -> str:
    return " ".join((text or "").split())
