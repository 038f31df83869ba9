"""The blocks of a document, and how they become passages: cut at headings first, then between blocks.

The title of a passage is the path of headings that it is under, "npm-ci › Description", so that a passage says what
it is about even where a hundred documents have the same headings.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple
from unicodedata import category

BETWEEN = " › "
"""Between two headings of a title."""
WHOLE = 4
"""A code block or a table is not cut up to this many times the words of a passage."""
_HAN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
"""Letters of Chinese and Japanese."""
_THAI = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\uaa60-\uaa7f"
"""Letters of Thai, Lao, Burmese and Khmer, which have no spaces between words either."""
_WORD = re.compile(rf"(?:[{_HAN}]|[{_THAI}]{{1,4}}+|[^\s{_HAN}{_THAI}]{{1,24}}+)")
_NO_SPACE = re.compile(r"\S")
_STOP = "[.!?…؟۔।॥։၊။។][\"'”’»)\\]]{,3}"
_WIDE_STOP = "[。！？｡][」』】）”’]{,3}"
_ITEM = r"\s*+(?:[-*+•|>#]|\d{1,9}[.)])\s"
_BOUNDARIES = [
    re.compile(pattern)
    for pattern in (
        r"\n\s*\n",
        rf"(?:{_STOP}|{_WIDE_STOP})[^\S\n]*+\n|\n(?={_ITEM})",
        rf"{_STOP}\s|{_WIDE_STOP}",
        r"\n",
        r"[,;:،؛–—]\s|[、，；：]",
        r"\s",
    )
]
"""Where a passage ends, the best first: a blank line, the end of a line that ends a sentence or comes before an item,
the end of a sentence, of a line, of a clause, of a word."""
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
    `metadata`: further fields that it states of itself; `faults`: reasons and details of what could not be read, rows
    of `rejects` beside its passages; `notes`: counts of what was left out."""

    blocks: Sequence[Block]
    title: str = ""
    metadata: Mapping[Any, Any] = field(default_factory=dict)
    faults: Sequence[tuple[str, str]] = ()
    notes: Mapping[str, int] = field(default_factory=dict)


class DocumentPart(NamedTuple):
    """A passage of a document. `place`: the heading it is under or its page, as in an address, `description`,
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
    held, size, page = list[str](), 0, 0
    for block in _with_lead_in(blocks):
        own = count(block.text, WHOLE * words + 1)
        if held and (block.page != page or (words and size + own > words)):
            yield "\n\n".join(held).strip(), page
            held, size = [], 0
        page = block.page
        if words and own > words and not (block.is_whole and own <= WHOLE * words):
            yield from ((text, page) for text in cut(block.text, words))
        else:
            held.append(block.text)
            size += own
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


def count(text: str, most: int) -> int:
    """The length of a text in words, or in what tells about as much where no spaces stand between words: a Chinese or
    Japanese letter, four letters of Thai, Lao, Khmer or Burmese, 24 signs of any other run. Counts no further than
    `most`."""
    return sum(1 for _ in islice(_WORD.finditer(text), most))


def cut(text: str, words: int) -> Iterator[str]:
    """Cut a text into passages of at most `words` words (`count`), which together hold all its words; 0 leaves it
    whole. A passage ends at the last of the best boundaries beyond its first quarter (_BOUNDARIES)."""
    text, start = text.strip(), 0
    whole, quarter = (re.compile(rf"(?:{_WORD.pattern}\s*+){{{most}}}") for most in (words, max(1, words // 4)))
    while words and (longest := whole.match(text, start)) and longest.end() < len(text):
        shortest = quarter.match(text, start)
        end = _boundary(text, shortest.end() if shortest else start, longest.end())
        yield text[start:end].rstrip()
        start = next(_NO_SPACE.finditer(text, end)).start()
    yield text[start:]


def _boundary(text: str, first: int, last: int) -> int:
    """The end of the last of the best boundaries between two places of a text."""
    for boundary in _BOUNDARIES:
        if ends := [match.end() for match in boundary.finditer(text, first - 1, last)]:
            return ends[-1]
    while category(text[last]).startswith("M"):  # a vowel or a tone of the letter before it
        last += 1
    return last
