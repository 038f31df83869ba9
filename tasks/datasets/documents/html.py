"""HTML as blocks, by selectolax: what a reader of the page sees of its main part, without navigation."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument, heading_of_all

_UNSHOWN = (
    "script, style, template, select, datalist, svg, iframe, nav, [role=navigation], [role=search], body > footer, "
    "body > header:not(:has(h1, h2))"
)
"""Elements that are not shown, or lead elsewhere."""
_CLOSED = "[hidden], [aria-hidden=true], dialog:not([open])"
_LINKS_TO_ITSELF = "a[href^='#'], a.headerlink, a.anchor"
_MAIN = ("main", "[role=main]", "article")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_OPENING = {"button", "dt", *_HEADINGS}
_BLOCKS = set(_HEADINGS) | set(
    re.findall(
        r"\w+",
        """address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption
        figure footer form header hgroup legend li main menu nav noscript ol optgroup option p pre search section
        summary table tbody td tfoot th thead tr ul xmp""",
    )
)
"""The elements that begin on a line of their own, or stand apart as cells do."""
_GROUPS: Mapping[str, int] = {"pre": 0, "table": 0, "ul": 0, "ol": 0} | _HEADINGS
"""The elements that are a block with all that they hold, with the level of a heading."""
_SUFFIX = re.compile(r"st|nd|rd|th|er|re|e|ème|ª|º|a|o|tm|sm|™|®|©|", re.IGNORECASE)
"""What is written above the line and is part of the word: 1st, 2e."""
_REDIRECTION = 300
"""Characters that a page has at most which only leads to another, besides white space."""
_SITE = re.compile(r"\s+[-–—|·•:»]\s")
"""What is in a `<title>` between the heading of a page and the name of its site."""
_DEEPEST = 100
"""Elements that a text is in at most; of a deeper one the nearest count."""


def read_html(content: str) -> ReadDocument:
    """Read a page. Its `<title>`, which often names the site too, counts where no heading is above all others."""
    try:
        tree = LexborHTMLParser(content)
    except SelectolaxError as error:
        raise MemoryError("any text is HTML: nothing else can fail") from error
    named = tree.css_first("title")
    title = _spaced(named.text()) if named else ""
    _remove_unshown(tree)
    _mark_breaks(tree)
    body: Any = tree.body
    if body is None or (tree.css_first("meta[http-equiv=refresh i]") and _signs(body.text()) < _REDIRECTION):
        return ReadDocument([], title)
    blocks = [*_blocks(_main_part(tree))]
    return ReadDocument(blocks, "" if heading_of_all(blocks) else _without_site(title, blocks))


def _without_site(title: str, blocks: Sequence[Block]) -> str:
    """A title without the name of the site behind the page's first heading: "Fees" of "Fees - Handbook"."""
    first = next((block.text for block in blocks if block.level), title)
    return first if title.startswith(first) and _SITE.match(title, len(first)) else title


def _remove_unshown(tree: LexborHTMLParser) -> None:
    opened = {node.attributes.get("aria-controls") for node in tree.css("[aria-controls]")}
    for node in _inner_first(tree, _CLOSED):
        if not _can_be_opened(node, opened):
            node.decompose()
    for node in _inner_first(tree, _UNSHOWN):
        node.decompose()
    for node in _inner_first(tree, "ul, ol"):
        links = node.css("a[href^='#']")
        if links and _signs(node.text()) == sum(_signs(link.text()) for link in links):  # a table of contents
            before = next(filter(None, map(_element_before, [node, *islice(_around(node), 3)])), None)
            if before is not None and before.tag in _HEADINGS:
                before.decompose()
            node.decompose()
    for node in _inner_first(tree, "button"):
        if not _is_part_of_a_text(node):
            node.decompose()
    for node in _inner_first(tree, _LINKS_TO_ITSELF):
        shown = node.text().strip()
        is_sign = not any(sign.isalnum() for sign in shown)
        is_beside = node.css_matches(".headerlink, .anchor") and node.parent.text().strip() != shown
        if is_sign or is_beside:
            node.decompose()


def _inner_first(tree: LexborHTMLParser, selector: str) -> list[Any]:
    """The elements that match, each once and before the one that it is in: what is in a removed one is gone."""
    return list({node.mem_id: node for node in reversed(tree.css(selector))}.values())


def _signs(text: str) -> int:
    return len("".join(text.split()))


def _element_before(node: Any) -> Any:
    before = node.prev
    while before is not None and before.tag.startswith("-"):
        before = before.prev
    return before


def _can_be_opened(node: Any, opened: Collection[str | None]) -> bool:
    """Return whether a hidden element is a panel that its reader can open."""
    before = _element_before(node)
    has_control = before is not None and (
        before.css_matches("[aria-expanded]") or (before.tag in _OPENING and before.css_matches("button"))
    )
    is_panel = node.attributes.get("role") == "tabpanel" or node.attributes.get("hidden") == "until-found"
    return has_control or is_panel or node.attributes.get("id", "") in opened


def _is_part_of_a_text(button: Any) -> bool:
    """Return whether a button is a heading, opens a panel or is in a sentence; others only act."""
    if {"aria-expanded", "aria-controls"} & set(button.attributes) or button.parent.text(deep=False).strip():
        return True
    return any(node.tag in _HEADINGS or node.tag in ("summary", "dt") for node in _around(button))


def _mark_breaks(tree: LexborHTMLParser) -> None:
    """Write line breaks and powers as text: "10^3" is not 103, "1st" is."""
    for node in tree.css("br, hr"):
        node.replace_with("\n")
    for node in tree.css("sup, sub"):
        before = node.prev.text() if node.prev else ""
        shown = node.text().strip()
        is_sub = node.tag == "sub" and not (before[-1:].isdigit() and shown[:1].isdigit())
        if before and not before[-1].isspace() and not is_sub and not _SUFFIX.fullmatch(shown):
            node.insert_before("^" if node.tag == "sup" else "_")


def _main_part(tree: LexborHTMLParser) -> Any:
    """The element that holds the page's own text: one that says so, if it has half of all text; else the body."""
    roots = [found[0] for selector in _MAIN if len(found := tree.css(selector)) == 1]
    body: Any = tree.body
    enough = len(_spaced(body.text())) / 2
    return next((root for root in roots if len(_spaced(root.text())) >= enough), body)


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
        if nearest is None and _stands_apart(node):
            nearest = node
        if node.mem_id == root.mem_id:
            break
    return group or nearest or root


def _around(text: Any) -> Iterator[Any]:
    """The elements that a text is in, the nearest first."""
    node = text.parent
    for _ in range(_DEEPEST):
        if node is None:
            return
        yield node
        node = node.parent


def _stands_apart(node: Any) -> bool:
    """Return whether an element is a block, or a custom one that is no part of a sentence."""
    return node.tag in _BLOCKS or ("-" in node.tag and not (node.parent and node.parent.text(deep=False).strip()))


def _made(element: Any, texts: Sequence[Any]) -> Iterator[Block]:
    """The block of an element. `texts`: the nodes of its texts."""
    if element is None or not any(node.text().strip() for node in texts):
        return
    if element.tag == "pre":
        yield Block("".join(node.text() for node in texts).strip("\n"), is_whole=True)
    elif element.tag == "table":
        yield Block("\n".join(_rows(texts)), is_whole=True)
    elif element.tag in ("ul", "ol"):
        items = (_joined(nodes).replace("\n", "\n  ") for nodes in _grouped(texts, ("li",)).values())
        yield Block("\n".join(f"- {item}" for item in items))
    else:
        yield Block(_joined(texts), _GROUPS.get(element.tag, 0))


def _rows(texts: Sequence[Any]) -> Iterator[str]:
    """The rows of a table, and of those in it, as text. `texts`: all that it holds."""
    cells = _grouped(texts, ("td", "th", "caption"))
    shown = {cell: _spaced(_joined(nodes)) for cell, nodes in cells.items()}
    for nodes in _grouped([nodes[0] for nodes in cells.values()], ("tr", "caption", "table")).values():
        row: Any = next((each for each in _around(nodes[0]) if each.tag in ("tr", "caption", "table")), None)
        is_row = row is not None and row.tag == "tr"
        own = [shown.get(cell.mem_id, "") for cell in row.iter()] if is_row else [_joined(nodes)]
        yield " | ".join(own).rstrip(" |")


def _grouped(texts: Sequence[Any], tags: Collection[str]) -> dict[int, list[Any]]:
    """The texts by the nearest element with one of these tags, in order; none of an element that begins blank."""
    found = dict[int, list[Any]]()
    for node in texts:
        nearest = next((each.mem_id for each in _around(node) if each.tag in tags), 0)
        if nearest in found or node.text().strip():
            found.setdefault(nearest, []).append(node)
    return found


def _joined(texts: Sequence[Any]) -> str:
    """The texts of an element, with a space between those of two blocks in it; code has lines of its own."""
    written = ""
    for (_, is_code), nodes in groupby(texts, _nearest_block):
        own = "".join(node.text() for node in nodes)
        if is_code:
            written += ("\n" if written else "") + own.strip("\n") + "\n"
        elif own := _spaced(own):
            written += ("" if not written or written.endswith("\n") else " ") + own
    return written.rstrip()


def _nearest_block(text: Any) -> tuple[int, bool]:
    """The block that a text is in, and whether it is code."""
    block = next((each for each in _around(text) if _stands_apart(each)), None)
    return (block.mem_id, block.tag == "pre") if block else (0, False)


def _spaced(text: str | None) -> str:
    return " ".join((text or "").split())
