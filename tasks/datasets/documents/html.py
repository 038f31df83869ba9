"""HTML as blocks, by selectolax: what a reader of the page sees of its main part, without navigation."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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
_DEEPEST = 100
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
    held, texts = None, list[Any]()
    for node in root.traverse(include_text=True):
        if node.tag != "-text" or not node.text():
            continue
        block = _block_of(node, root)
        if held is None or block.mem_id != held.mem_id:
            yield from _made(held, texts)
            held, texts = block, []
        texts.append(node)
    yield from _made(held, texts)


def _block_of(text: Any, root: Any) -> Any:
    """The element that a text is shown in: the outermost one of _GROUPS, else the nearest that is not inline."""
    nearest = group = None
    for node in _around(text):
        if node.tag in _GROUPS:
            group = node
        if nearest is None and node.tag not in _INLINE:
            nearest = node
        if node.mem_id == root.mem_id:
            break
    return group or nearest or root


def _around(text: Any) -> Iterator[Any]:
    """The elements that a text stands in, the nearest first."""
    node = text.parent
    for _ in range(_DEEPEST):
        if node is None:
            return
        yield node
        node = node.parent


def _made(element: Any, texts: Sequence[Any]) -> Iterator[Block]:
    """The block of an element. `texts`: the nodes of its texts."""
    if element is None or not any(node.text().strip() for node in texts):
        return
    if element.tag == "pre":
        yield Block("".join(node.text() for node in texts).strip("\n"), is_whole=True)
    elif element.tag == "table":
        cells = _grouped(texts, ("td", "th", "caption"))
        rows = _grouped([nodes[0] for nodes in cells], ("tr", "table"))
        shown = {nodes[0].mem_id: _joined(nodes) for nodes in cells}
        yield Block("\n".join(" | ".join(shown[node.mem_id] for node in row) for row in rows), is_whole=True)
    elif element.tag in ("ul", "ol"):
        yield Block("\n".join(f"- {_joined(nodes)}" for nodes in _grouped(texts, ("li",))))
    else:
        yield Block(_joined(texts), _GROUPS.get(element.tag, 0))


def _grouped(texts: Sequence[Any], tags: Collection[str]) -> list[list[Any]]:
    """The texts that are not blank, by the nearest element with one of these tags, in order."""
    found = dict[int, list[Any]]()
    for node in texts:
        if node.text().strip():
            nearest = next((each for each in _around(node) if each.tag in tags), None)
            found.setdefault(nearest.mem_id if nearest else 0, []).append(node)
    return [*found.values()]


def _joined(texts: Sequence[Any]) -> str:
    return _spaced("".join(node.text() for node in texts))


def _spaced(text: str | None) -> str:
    return " ".join((text or "").split())
