"""Markdown as blocks: CommonMark with tables and front matter, by markdown-it-py.

Comments, link definitions, rules and lists of links into the same page (a table of contents) are left out: they say
nothing to a reader of a passage. A block's text is its source.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

from vitalfew.configs.loading import parse
from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument

LIMIT = 2 << 20
"""Characters of a text; what a parser makes of it takes a hundred times its size."""
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_ANCHOR = re.compile(r"\s*\{#[^}]*\}\s*$")
"""The address of a heading, as several generators of sites read it: `## Usage {#usage}`."""
_WHOLE = ("fence", "code_block", "table_open")
_LEFT_OUT = ("hr", "front_matter")


def read_markdown(text: str) -> ReadDocument:
    """Read a Markdown text; one that is longer than LIMIT is one block."""
    if len(text) > LIMIT:
        return ReadDocument([Block(text.strip())])
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "�")
    tokens = MarkdownIt("commonmark").enable("table").use(front_matter_plugin).parse(text)
    first = tokens[0] if tokens and tokens[0].type == "front_matter" else None
    matter = _front_matter(first.content) if first else {}
    if first and matter is None:  # a text between two rules
        tokens = MarkdownIt("commonmark").enable("table").parse(text)
    title = matter.get("title") if matter else None
    named = title.strip() if isinstance(title, str) else ""
    return ReadDocument([*_blocks(tokens, text.split("\n"))], named, matter or {})


def _front_matter(text: str) -> dict[str, Any] | None:
    """The fields of front matter; None for another text."""
    try:
        matter = parse(text)
    except ValueError:
        return None
    return matter if isinstance(matter, dict) else None


def _blocks(tokens: Iterable[Token], lines: Sequence[str]) -> Iterator[Block]:
    for token, inner in _outermost(tokens):
        if token.map is None or token.type in _LEFT_OUT:
            continue
        text = "\n".join(lines[slice(*token.map)]).strip("\n")
        if token.type == "heading_open":
            if heading := _ANCHOR.sub("", _plain(inner[0])).strip():
                yield Block(heading, int(token.tag[1:]))
        elif token.type in _WHOLE:
            yield Block(text, is_whole=True)
        elif not _is_contents(inner) and (text := _without_comments(text, token, inner).strip()):
            yield Block(text)


def _outermost(tokens: Iterable[Token]) -> Iterator[tuple[Token, list[Token]]]:
    """Every token that stands in no other, with the inline tokens in it."""
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
    children = [child for inline in inner for child in inline.children or ()]
    links = [child for child in children if child.type == "link_open"]
    return (
        bool(links)
        and all(str(link.attrGet("href") or "").startswith("#") for link in links)
        and not _outside_links(children)
    )


def _outside_links(children: Sequence[Token]) -> str:
    """The text that stands in no link."""
    depth, texts = 0, []
    for child in children:
        depth += {"link_open": 1, "link_close": -1}.get(child.type, 0)
        if not depth and child.type != "link_close":
            texts.append(child.content)
    return "".join(texts).strip()


def _without_comments(text: str, token: Token, inner: Sequence[Token]) -> str:
    """The text of a block without comments; nothing of one that shows nothing."""
    if token.type == "html_block":
        text = _COMMENT.sub("", text)
        return text if _TAG.sub("", text).strip() else ""
    children = [child for inline in inner for child in inline.children or ()]
    html = [child.content for child in children if child.type == "html_inline"]
    if html and not any(child.content.strip() for child in children if child.type != "html_inline"):
        return ""
    for comment in html:
        if comment.startswith("<!--"):
            text = text.replace(comment, "", 1)
    return text
