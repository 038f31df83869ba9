"""Markdown, line by line, for the generated pages."""

import inspect
import re
from collections.abc import Iterable, Iterator


def cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")


def prose(words: str) -> str:
    """Plain words as Markdown: outside of code, no sign of theirs emphasises or begins a tag."""
    return re.sub(r"(`[^`]*`)|((?<! )\*|\*(?! )|\\|<(?=[\w/!]))", lambda m: m[1] or f"\\{m[2]}", words)


def code(words: str) -> str:
    return f"`{words}`" if words else ""


def table(*headings: str, of: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield a table, or nothing if it has no rows."""
    listed = [f"| {' | '.join(map(cell, row))} |" for row in of]
    if listed:
        yield f"| {' | '.join(headings)} |"
        yield f"|{'---|' * len(headings)}"
        yield from listed
        yield ""


def block(*commands: str, language: str = "sh") -> Iterator[str]:
    yield from (f"```{language}", *commands, "```", "")


def paragraphs(documentation: str) -> Iterator[str]:
    """Yield a docstring; a paragraph of commands becomes a block of code."""
    for paragraph in inspect.cleandoc(documentation).split("\n\n"):
        lines = [line.strip() for line in paragraph.splitlines()]
        if all(line.startswith("vitalfew ") for line in lines):
            yield from block(*lines)
        else:
            yield from (prose(" ".join(lines)), "")


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as code hosts and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
