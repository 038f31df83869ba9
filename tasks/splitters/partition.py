"""Character ranges that partition a text: from the places where sentences begin, and of parts that are not too long."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING
from unicodedata import category, normalize

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ranges = list[tuple[int, int]]

_BLANK_LINE = re.compile(r"\n[^\S\n]*+\n\s*+")
_ITEM = re.compile(r"\n[^\S\n]*+(?=(?:[-*+\u2022]|\d{1,3}[.)])[^\S\n]++\S)")
"""The line break before an item of a list, "- first" or "2. second"."""
_WHITE = re.compile(r"\s*+")
_BOUNDARIES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n[^\S\n]*+\n\s*+",
        r"\n\s*+",
        r"[.!?…][\"'”’»)\]]*+\s++|[。！？｡।॥۔؟։။។][\"'”’»」』）]*+\s*+",
        r"[;:,–—]\s++|[；：，、،؛၊]\s*+",
        r"\s++",
    )
)
"""Places where a long text is best cut, the best first: blank line, line break, sentence, clause, word."""


def begun_at(text: str, starts: Iterable[int]) -> Ranges:
    """The ranges that begin at these places, at blank lines and at items of a list; none for the empty text. The places
    are in order and within the text without the white space around it, which belongs to the first and last range."""
    begins = [0, *starts] if text else []
    if "\n" in text:
        around = len(text) - len(text.lstrip()), len(text.rstrip())
        found = chain(_BLANK_LINE.finditer(text, *around), _ITEM.finditer(text, *around))
        begins = sorted({*begins, *(match.end() for match in found)})
    return list(zip(begins, [*begins[1:], len(text)], strict=True)) if text else []


def cut(text: str, ends: Sequence[int], most: int) -> Ranges:
    """Ranges of at most `most` of a text's parts, which end at `ends`, such as words. A range ends at the last of the
    best boundaries in its last three quarters, else where it is full. White space belongs to the range before."""
    ranges, start, done, last = [], 0, 0, len(text.rstrip())
    while len(ends) - done > most and (full := ends[done + most - 1]) < last:
        start, before = _best(text, ends[done + most // 4], full), start
        ranges.append((before, start))
        done = bisect_right(ends, start, done)
    return [*ranges, (start, len(text))]


def _best(text: str, floor: int, full: int) -> int:
    end = _WHITE.match(text, full).end()  # type: ignore[union-attr]
    for boundary in _BOUNDARIES:
        if found := [match.end() for match in boundary.finditer(text, floor, end)]:
            return found[-1]
    while full > floor and category(text[full]).startswith("M"):  # a mark belongs to the letter before
        full -= 1
    return full


_PARTS = re.compile(r"[!-/:-@\[-`{-~]|[^ \t\n\r!-/:-@\[-`{-~]++")
"""The words and punctuation marks of ASCII; a control character within a word is dropped by the encoder."""
LONG = 32
"""Characters of a token that the encoder minilm does not know, at least."""


@cache
def _tokenizer() -> "Tokenizer":
    from vitalfew.tasks.models.encoder.recipe import read_tokenizer  # slowly
    from vitalfew.tasks.models.files import minilm_directory

    return read_tokenizer(minilm_directory())


def are_at_most(text: str, most: int) -> bool:
    """Return whether a text has at most so many tokens (`token_ends`) for certain: each is a character of its
    decomposed form, or more, and in ASCII no word has more than by itself."""
    if not text.isascii():
        return len(normalize("NFD", text)) <= most
    return len(text) <= most or sum(map(_tokens_of, _PARTS.findall(text))) <= most


@lru_cache(1 << 17)
def _tokens_of(word: str) -> int:
    return len(token_ends(word))


def token_ends(text: str) -> list[int]:
    """Where the tokens of a text end, as the encoder minilm reads it, whatever encoder is used: a measure of length. A
    word that the encoder takes for unknown because it is long, as a run of Thai is, counts by four characters."""
    offsets = _tokenizer().encode(text, add_special_tokens=False).offsets
    return [place for start, end in offsets for place in (*range(start + 4, end if end - start > LONG else 0, 4), end)]
