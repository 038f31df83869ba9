"""Cuts a topic of Python's manual, as Sphinx's text builder writes it, into passages of some 60 to 150 words.

The text has headings with an underline, paragraphs wrapped at 70 columns, and grammar, code, tables and definitions,
which are told by their indentation. A passage is a run of paragraphs under one heading. A paragraph keeps what it
introduces: the code or grammar after a colon, the first words of a definition after its name. Nothing is lost but
underlines and wraps.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile
from textwrap import dedent

FEWEST, MOST = 60, 150
"""Words of a passage: an open one is closed before a definition if it has the fewest, and before any paragraph that
would take it beyond the most. A paragraph is never cut, so one with much code is longer."""

_WIDTH = 70
_UNDERLINE = re.compile(r"([*=\-~^\"])\1+")
_FOOTNOTES = re.compile(r"-\[ (.+) \]-")
_NOTE = re.compile(r"(Note|See also|Warning|Important|Tip|Hint|Caution):")
_ITEM = re.compile(r'(\*|\d+\.|\[\d+\]) |"[^"\n]+"\n')
_SUITE = r"^ *(?:if|for|while|def|class|with|try|except|else|async)\b.*:\n +\S"
_VERBATIM = re.compile(rf"::=|^ *>>> |^ *(?:\+[-=]{{3}}|\|[ =])|^ *@\w|{_SUITE}", re.MULTILINE)
_NAME = re.compile(r' *[\w."]+(\(|\[|"$)')
_LONGEST_NAME = 8
"""Words of what a definition explains, at most; something longer that does not end leads on to code."""
_ENDED = tuple('.:!?;,)”"')


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under a heading, up to the next one of any level."""

    heading: str
    passages: tuple[str, ...]


@dataclass(slots=True)
class _Block:
    """Lines between blank lines. `verbatim`: their breaks and indentation count; `code`: what comes after a blank line
    and is no less indented is of the same block; `glued`: it stays with the block before."""

    source: str
    verbatim: bool = False
    code: bool = False
    glued: bool = False

    @property
    def indent(self) -> int:
        return len(self.source) - len(self.source.lstrip(" "))

    @property
    def names(self) -> bool:
        """Whether it names what the indented blocks after it define: it is no sentence."""
        return not self.source.endswith(_ENDED) or bool(_NAME.match(self.source))

    @property
    def words(self) -> int:
        return len(self.source.split())

    def text(self) -> str:
        return dedent(self.source) if self.verbatim else _unwrapped(self.source.split("\n"))


def cut(text: str) -> list[Section]:
    """The sections of a topic, in order; one with a heading alone has no passages."""
    return [Section(heading, tuple(_packed(_linked(source)))) for heading, source in _sections(text)]


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield (heading, what stands under it)."""
    heading, body, lines = "", list[str](), [line.rstrip() for line in text.split("\n")]
    for above, line, below in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        footnotes = _FOOTNOTES.fullmatch(line)
        if footnotes or _underlines(below, line):
            yield heading, "\n".join(body)
            heading, body = footnotes[1] if footnotes else line, []
        elif not _underlines(line, above):
            body.append(line)
    yield heading, "\n".join(body)


def _underlines(line: str, heading: str) -> bool:
    return 0 < len(heading) == len(line) and bool(_UNDERLINE.fullmatch(line))


def _linked(source: str) -> list[_Block]:
    """The blocks of a section, each marked as verbatim or not, glued to the one before it or not."""
    blocks: list[_Block] = []
    for part in filter(None, re.split(r"\n{2,}", source.strip("\n"))):
        block = _Block(part, verbatim=bool(_VERBATIM.search(part)))
        if blocks and blocks[-1].code and block.indent >= blocks[-1].indent:
            blocks[-1].source += f"\n\n{part}"
            continue
        if blocks:
            _link(block, blocks[-1])
        blocks.append(block)
    return blocks


def _link(block: _Block, before: _Block) -> None:
    """Mark a block by the one before it."""
    deeper = block.indent > before.indent
    introduced = before.source.endswith(":") or (before.words > _LONGEST_NAME and not before.source.endswith(_ENDED))
    note = bool(_NOTE.fullmatch(before.source.strip()))
    prose = note or bool(_ITEM.match(block.source.lstrip()))
    block.verbatim = block.verbatim or (deeper and introduced and not prose)
    block.code = deeper and block.verbatim
    goes_on = before.verbatim and before.indent > block.indent and block.source.lstrip()[0].islower()
    goes_on = goes_on and not _NAME.match(block.source)
    block.glued = block.verbatim or introduced or goes_on or (deeper and before.names and not before.verbatim)


def _packed(blocks: list[_Block]) -> Iterator[str]:
    """Yield the passages of a section; a last one that is short joins the one before it, if there is room."""
    passages: list[list[_Block]] = []
    for number, block in enumerate(blocks):
        open_words = _words(passages[-1]) if passages else 0
        full = open_words + _words(_group(blocks, number)) > MOST
        defines = number > 0 and block.names and block.indent < blocks[number - 1].indent
        if not passages or (not block.glued and (full or (defines and open_words >= FEWEST))):
            passages.append([])
        passages[-1].append(block)
    if len(passages) > 1 and _words(passages[-1]) < FEWEST and _words(passages[-2] + passages[-1]) <= MOST:
        passages[-2:] = [passages[-2] + passages[-1]]
    for passage in passages:
        yield "\n\n".join(block.text() for block in passage)


def _words(blocks: Iterable[_Block]) -> int:
    return sum(block.words for block in blocks)


def _group(blocks: list[_Block], first: int) -> Iterator[_Block]:
    """Yield a block and those that are glued to it."""
    yield blocks[first]
    yield from takewhile(lambda block: block.glued, blocks[first + 1 :])


def _unwrapped(lines: list[str]) -> str:
    """Lines as one, but for breaks that the width does not explain: the next word would have had room."""
    text = lines[0].strip()
    for line, following in pairwise(lines):
        word = following.split(maxsplit=1)[0]
        if len(line) + 2 + len(word) <= _WIDTH:
            text += "\n"
        elif not re.search(r"\w-$", line):
            text += " "
        text += following.strip()
    return text
