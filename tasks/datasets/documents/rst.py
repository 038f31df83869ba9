"""reStructuredText as blocks, by docutils.

A document of Sphinx has directives and roles that docutils does not know: the text in them is read, their names are
not. No file that a document names is read, and nothing in it is executed.
"""

import re
import sys
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import get_language
from docutils.utils import new_document

from vitalfew.tasks.datasets.documents.blocks import Block, ReadDocument

_DIRECTIVE = re.compile(r"^\s*\.\. +(?:\|[^|\n]+\| +)?([\w:+.-]+?)::(?:\s|$)", re.MULTILINE)
_ROLE = re.compile(r":([A-Za-z][\w:+.-]*):`")
_TARGET = re.compile(r"\s*<[^<>]*>$")
_LEFT_OUT = ("toctree", "contents", "index", "meta", "raw", "include", "literalinclude", "image", "highlight")
"""Directives of lists of pages, of files, and of pictures."""
_LISTS = (nodes.bullet_list, nodes.enumerated_list)
_WHOLE = (nodes.literal_block, nodes.doctest_block, nodes.math_block, nodes.table)
_VERSIONS = {
    "versionadded": "Added in version ",
    "versionchanged": "Changed in version ",
    "deprecated": "Deprecated since version ",
}
_UNDERLINE = re.compile(r"([^\w\s])\1{2,}\s*")
_INCLUDES = re.compile(r"^\s*\.\. +(?:literal)?include::", re.MULTILINE)
SETTINGS = {
    "line_length_limit": sys.maxsize,
    "report_level": 5,
    "halt_level": 5,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    "smart_quotes": False,
    "doctitle_xform": False,
    "sectsubtitle_xform": False,
}


class _AnyOption(dict[str, Any]):
    """Takes every option of a directive as it is."""

    def __missing__(self, name: str) -> Any:
        return directives.unchanged

    def __bool__(self) -> bool:
        return True


class _Unknown(Directive):
    """A directive that docutils does not know: its argument and its content are text."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = _AnyOption()

    def run(self) -> list[nodes.Node]:
        held = nodes.container()
        if self.arguments:
            inline, _ = self.state.inline_text(self.arguments[0], self.lineno)
            held += nodes.paragraph("", "", nodes.Text(_VERSIONS.get(self.name, "")), *inline)
        for number in range(1, len(self.content)):
            # docutils takes no heading here and would lose it: it is a paragraph.
            if _UNDERLINE.fullmatch(self.content[number]) and self.content[number - 1][:1].strip():
                self.content[number] = ""
        self.state.nested_parse(self.content, self.content_offset, held)
        return [held]


class _LeftOut(_Unknown):
    """A directive that shows no text."""

    def run(self) -> list[nodes.Node]:
        return []


def read_rst(text: str) -> ReadDocument:
    """Read a text. What it defines (roles, a default role) ends with it: docutils keeps them for all texts."""
    known = [(registry, dict(registry)) for registry in (roles._roles, directives._directives)]
    try:
        _know(text)
        blocks = [*_blocks(publish_doctree(text, settings_overrides=SETTINGS), 0)]
    finally:
        for registry, before in known:
            registry.clear()
            registry.update(before)
    return ReadDocument(blocks, notes={"includes_not_followed": len(_INCLUDES.findall(text))})


def _know(text: str) -> None:
    """Let docutils know the directives and roles of a text that it does not know."""
    english, document = get_language("en"), new_document("")
    for name in {*_DIRECTIVE.findall(text), *_LEFT_OUT}:
        if name in _LEFT_OUT:
            directives.register_directive(name, _LeftOut)
        elif directives.directive(name, english, document)[0] is None:
            directives.register_directive(name, _Unknown)
    for name in set(_ROLE.findall(text)):
        if roles.role(name, english, 0, document.reporter)[0] is None:
            roles.register_local_role(name, _role)


def _role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """The text of a role: of `title <target>` the title, of `~module.name` the name."""
    shown = _TARGET.sub("", nodes.unescape(text)).lstrip("!")
    if shown.startswith("~"):
        shown = shown[1:].rpartition(".")[2]
    return [nodes.literal(rawtext, shown)], []


def _blocks(parent: nodes.Element, level: int) -> Iterator[Block]:
    """`level`: of the section that `parent` is; a title of anything else is text: what follows it is not below it."""
    for node in parent.children:
        if isinstance(node, nodes.section) and isinstance(parent, nodes.section | nodes.document):
            yield from _blocks(node, level + 1)
        elif isinstance(node, nodes.title) and isinstance(parent, nodes.section | nodes.document):
            yield Block(_joined(node), max(1, level))
        elif isinstance(node, _WHOLE):
            yield Block(_written(node), is_whole=True)
        elif isinstance(node, _LISTS):
            yield Block(_written(node))
        elif isinstance(node, nodes.Invisible | nodes.system_message):
            continue
        elif isinstance(node, nodes.TextElement | nodes.line_block | nodes.field | nodes.footnote | nodes.citation):
            if text := _joined(node):
                yield Block(text)
        elif isinstance(node, nodes.Element):
            yield from _blocks(node, level)


def _written(node: nodes.Node) -> str:
    """A list, code, a table or a paragraph as text; what is in an item of a list is indented below it."""
    if isinstance(node, _LISTS):
        items = ("\n".join(map(_written, item.children)) for item in node.children)
        return "\n".join("- " + item.replace("\n", "\n  ") for item in items)
    if isinstance(node, nodes.table):
        return _table(node)
    return node.astext() if isinstance(node, _WHOLE) else _joined(node)


def _joined(node: nodes.Node) -> str:
    return " ".join(node.astext().split())


def _table(node: nodes.table) -> str:
    titles = [_joined(title) for title in node.findall(nodes.title)]
    rows = [" | ".join(_joined(cell) for cell in row.children) for row in node.findall(nodes.row)]
    return "\n".join(titles + rows)
