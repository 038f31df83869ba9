"""Markdown as blocks: CommonMark with tables, by markdown-it-py, without what its dialects add (dialects.py).

Comments, link definitions, rules and lists of links into the same page (a table of contents) are left out: they say
nothing to a reader of a passage. A block's text is its source, but for the dashes below the head of a table; a block of
HTML is read as a page is.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument
from vitalfew.tasks.datasets.documents.dialects import front_matter, plain
from vitalfew.tasks.datasets.documents.html import read_html

_MARKDOWN = MarkdownIt("commonmark").enable("table")
_MDX = MarkdownIt("commonmark").enable("table").disable("code")
_WHOLE = ("fence", "code_block")
_DASHES = re.compile("-+")


def read_mdx(text: str) -> ReadDocument:
    """Read a text of MDX, in which an indented line is no code."""
    return read_markdown(text, is_mdx=True)


def read_markdown(text: str, is_mdx: bool = False) -> ReadDocument:
    fields, below, fault = front_matter(text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "�"))
    shown, includes = plain(below, is_mdx)
    title, notes = fields.get("title"), {"includes_not_followed": includes}
    blocks = [*_blocks((_MDX if is_mdx else _MARKDOWN).parse(shown), shown.split("\n"))]
    faults = [("malformed_front_matter", fault)] if fault else []
    return ReadDocument(blocks, title.strip() if isinstance(title, str) else "", fields, faults, notes)


def _blocks(tokens: Iterable[Token], lines: Sequence[str]) -> Iterator[Block]:
    for token, inner in _outermost(tokens):
        if token.map is None or token.type == "hr" or (token.type == "fence" and not token.content.strip()):
            continue
        text = "\n".join(lines[slice(*token.map)]).strip("\n")
        if token.type == "html_block":
            yield from read_html(text).blocks
        elif token.type == "heading_open":
            if heading := _without_attributes(_plain(inner[0])):
                yield Block(heading, int(token.tag[1:]))
        elif token.type == "table_open":
            yield Block(_with_short_dashes(text), is_whole=True)
        elif token.type in _WHOLE:
            yield Block(text, is_whole=True)
        elif not _is_contents(inner) and (text := _without_comments(text, inner).strip()):
            yield Block(text)


def _with_short_dashes(table: str) -> str:
    """A table with one dash per column below its head. Every dash is a token, and a line of them may be longer than all
    that a prompt shows."""
    head, dashes, *rows = table.split("\n")
    return "\n".join([head, _DASHES.sub("-", dashes), *rows])


def _without_attributes(heading: str) -> str:
    """A heading without its address and classes, as generators of sites read them: `## Usage {#usage .wide}`."""
    text, brace, attributes = heading.rpartition("{")
    closes = brace and attributes.rstrip().endswith("}") and attributes.startswith(("#", ".", ":", "-"))
    return (text if closes else heading).strip()


def _outermost(tokens: Iterable[Token]) -> Iterator[tuple[Token, list[Token]]]:
    """Every token that is in no other, with the inline tokens in it."""
    first, inner = None, list[Token]()
    for token in tokens:
        if first is None:
            first, inner = token, []
        if token.type == "inline":
            inner.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield first, inner
            first = None


def _plain(inline: Token) -> str:
    """The text of an inline token, without marks."""
    return "".join(
        " " if child.type in ("softbreak", "hardbreak") else child.content
        for child in inline.children or ()
        if child.type != "html_inline"
    )


def _is_contents(inner: Sequence[Token]) -> bool:
    """Return whether a block is nothing but links into this page."""
    depth, links, outside = 0, list[str](), ""
    for child in _children(inner):
        if child.type == "link_open":
            links.append(str(child.attrGet("href") or ""))
        depth += {"link_open": 1, "link_close": -1}.get(child.type, 0)
        outside += "" if depth else child.content  # of the end of a link it is empty
    return bool(links) and all(link.startswith("#") for link in links) and not outside.strip()


def _children(inner: Sequence[Token]) -> list[Token]:
    return [child for inline in inner for child in inline.children or ()]


def _without_comments(text: str, inner: Sequence[Token]) -> str:
    """The text of a block without comments; nothing of one that shows nothing."""
    children = _children(inner)
    html = [child.content for child in children if child.type == "html_inline"]
    if html and not any(child.content.strip() for child in children if child.type != "html_inline"):
        return ""
    for comment in html:
        if comment.startswith("<!--"):
            text = text.replace(comment, "", 1)
    return text
