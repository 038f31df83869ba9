"""The blocks of a document, and how they become passages: cut at headings first, then between blocks.

The title of a passage is the path of headings that it stands under, "npm-ci › Description", so that a passage says what
it is about even where a hundred documents have the same headings.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

BETWEEN = " › "
"""Between two headings of a title."""
WHOLE = 4
"""A code block or a table is not cut up to this many times the words of a passage."""
_GAP = re.compile(r"\s+")
_NO_SLUG = re.compile(r"[^\w\s-]")


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a list, a code block, a table, or a heading. `level`: of a heading, from 1; 0 for all others;
    `is_whole`: not cut where possible, and kept with the paragraph before it; `page`: its number, from 1; 0 where
    there are no pages."""

    text: str
    level: int = 0
    is_whole: bool = False
    page: int = 0


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """The blocks of a document in their order. `title`: that it states apart from its headings; empty if none;
    `metadata`: further fields that it states of itself, which JSON can hold."""

    blocks: Sequence[Block]
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class DocumentPart(NamedTuple):
    """A passage of a document. `place`: the heading it stands under or its page, as in an address, `description`,
    `description-1` for the second heading of that name, or `page=3`, and `part=2` for the second passage there; no
    other passage has it. Empty before the first heading."""

    title: str
    text: str
    place: str


def parts(document: ReadDocument, name: str, words: int) -> Iterator[DocumentPart]:
    """Cut a document into passages of at most `words` words (0: one passage per heading). `name`: the title of a
    document without one."""
    title = document.title or heading_of_all(document.blocks)
    path, places, slugs, section = list[Block](), Counter[str](), Counter[str](), ""
    for heading, blocks in _sections(document.blocks):
        if heading:
            path = [*(each for each in path if each.level < heading.level), heading]
            section = slug(heading.text)
            slugs[section] += 1
            section += f"-{slugs[section] - 1}" if slugs[section] > 1 else ""
        shown = [title or name, *(each.text for each in path if each.text.casefold() != title.casefold())]
        for text, page in _packed(blocks, words):
            place = f"page={page}" if page else section
            places[place] += 1
            part = [f"part={places[place]}"] if places[place] > 1 else []
            yield DocumentPart(BETWEEN.join(shown), text, "&".join(filter(None, [place, *part])))


def heading_of_all(blocks: Sequence[Block]) -> str:
    """The first heading, if all others are below it: the document's title; else empty."""
    first, *others = [block for block in blocks if block.level] or [Block("")]
    return first.text if all(other.level > first.level for other in others) else ""


def _sections(blocks: Iterable[Block]) -> Iterator[tuple[Block | None, list[Block]]]:
    """Every heading with the blocks up to the next one; None for those before the first."""
    heading, own = None, list[Block]()
    for block in blocks:
        if block.level:
            yield heading, own
            heading, own = block, []
        else:
            own.append(block)
    yield heading, own


def _packed(blocks: Iterable[Block], words: int) -> Iterator[tuple[str, int]]:
    """Join neighbouring blocks of a page to texts of at most `words` words; cut blocks that are longer."""
    held, count, page = list[str](), 0, 0
    for block in _with_lead_in(blocks):
        own = len(block.text.split())
        if held and (block.page != page or (words and count + own > words)):
            yield "\n\n".join(held).strip(), page
            held, count = [], 0
        page = block.page
        if words and own > words and not (block.is_whole and own <= WHOLE * words):
            yield from ((text, page) for text in cut(block.text, words))
        else:
            held.append(block.text)
            count += own
    if held:
        yield "\n\n".join(held).strip(), page


def _with_lead_in(blocks: Iterable[Block]) -> Iterator[Block]:
    """Join a code block or a table to the paragraph before it, which says what it shows."""
    before: Block | None = None
    for block in blocks:
        if before and block.is_whole and not before.is_whole and before.page == block.page:
            yield Block(f"{before.text}\n\n{block.text}", is_whole=True, page=block.page)
            before = None
            continue
        if before:
            yield before
        before = block
    if before:
        yield before


def slug(heading: str) -> str:
    """The name of a heading in an address, as code hosts make it."""
    return re.sub(r"\s", "-", _NO_SLUG.sub("", heading.strip().lower()))


class _Gap(NamedTuple):
    """White space between two words. `rank` says how good a cut there is (2: a blank line, 1: a line break)."""

    rank: int
    words: int
    start: int
    end: int


def cut(text: str, words: int) -> Iterator[str]:
    """Cut a text into passages of at most `words` words, which together hold all its words; 0 leaves it whole.

    A passage ends at the last blank line that keeps it short enough, else at the last line break, else between two
    words. It has at least a quarter of `words`.
    """
    text = text.strip()
    start, before = 0, 0
    gaps: list[_Gap] = []
    for count, match in enumerate(_GAP.finditer(text) if words else (), start=1):
        gaps.append(_Gap(min(match[0].count("\n"), 2), count, match.start(), match.end()))
        if count - before == words:
            best = max(gap for gap in gaps if 4 * (gap.words - before) >= words)
            yield text[start : best.start]
            start, before = best.end, best.words
            gaps = [gap for gap in gaps if gap.words > best.words]
    yield text[start:]
