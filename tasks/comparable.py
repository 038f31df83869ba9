"""The comparable form of a text, in which texts are compared wherever the product compares any: keywords, quotes and
sources of questions, gold answers, evidence on pages. What is shown stays as it was written.

Two texts that differ by fonts, typing or mark-up alone have one form. In this order:

1. Soft hyphens, zero-width spaces, word joiners, byte order marks and marks of direction are dropped, and of combining
marks in a row all beyond the 30th, as Unicode's normalisation takes quadratic time for them.

2. What the next steps would glue to the word before it stays apart: superscript digits become `^` and digits ("10³" is
"10^3", not "103"); a fraction, a circled number, ™ and ℠ get a blank before them ("2½" is "2 1/2").

3. Unicode's normal form NFKC: a letter with accents is one character, ligatures and full-width letters are plain ones.

4. Single quotation marks, primes and an accent by itself become `'`, double and angle ones `"`; hyphens, dashes and the
minus sign `-`; the fraction slash `/`.

5. A run of Unicode's white space becomes one blank, and none at the ends.

6. Marks of Markdown's emphasis and code are dropped in pairs: runs of `*` and `_`, and of backticks. The first run of a
pair has no letter or digit before it and no blank after it, the second one no blank before it and no letter or digit
after it, and mirrors the first. `__` is none, so that `snake_case`, `2*3*4` and `__init__` stay. Beside `*` and the
backtick, letters of scripts without blanks (Chinese, Japanese, Thai and others) are no letters. This is repeated until
no pair is left, eight times at most.

Letters keep their case here. Keywords and quotes are also folded by case; answers go on to SQuAD's normalisation.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from unicodedata import category, is_normalized, normalize

from vitalfew.tasks.splitters.tokens import UNSPACED

Edit = tuple[int, int, str]
"""Start and end of a piece of a text, and what takes its place."""
Step = Callable[[str], Iterable[Edit]]

_STRAIGHT = (
    dict.fromkeys("‘’‚‛ʹʼ′´\u1ffd‹›", "'")
    | dict.fromkeys("“”„‟″«»", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u058a\u05be\u2e3a\u2e3b", "-")
    | {"\u2044": "/"}
)
_SIGNS = re.compile(f"[{''.join(_STRAIGHT)}]")
_MARK = "[^\x00-\u02ff\u2000-\u20cf\u20f1-\u2cee\U0001f000-\U0001ffff\\w\\s]"
"""A combining mark, or a punctuation mark of another script."""
_DROPPED = re.compile("[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]+")
_MANY = re.compile(f"{_MARK}{{30}}({_MARK}+)")
_GLUED = re.compile(f"([⁺⁻]?[⁰¹²³⁴-⁹ⁱⁿ]+)|(?<=\\w|{_MARK})[™℠¼-¾⅐-⅞↉①-⑳]")
_UNLIKE_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
_WHITE = re.compile(r"\s+")
_MARKS = re.compile(r"`+|[*_]+")
_LETTER = re.compile(r"[^\W_]")
_SPACED_LETTER = re.compile(f"[^\\W_{UNSPACED}]")
_PASSES = 8


def comparable(text: str) -> str:
    """The form that the module describes. The time is linear in the text's length."""
    if not text.isascii():
        for step in _BEYOND_ASCII:
            text = _edited(text, step(text))
    text = " ".join(text.split())
    for _ in range(_PASSES if "*" in text or "_" in text or "`" in text else 0):
        if not (pairs := _emphasis(text)):
            break
        text = _edited(text, pairs)
    return text


def find(text: str, quote: str) -> tuple[int, int] | None:
    """The first place of a quote in a text: its start and end (code points of the text as it is). Both are compared in
    their comparable form, whatever the case, or else without all marks that could be one of a pair, as the other may
    lie beyond the quote. None where the quote is not there, or is empty."""
    found, wanted = comparable(text).casefold(), comparable(quote).casefold()
    steps = _STEPS
    if wanted not in found:
        steps = (*_STEPS, _half_pairs)
        found, wanted = (_edited(form, _half_pairs(form)) for form in (found, wanted))
    if not wanted or (place := found.find(wanted)) < 0:
        return None
    spans = _traced(text, steps)
    return spans[place][0], spans[place + len(wanted) - 1][1]


def _edited(text: str, edits: Iterable[Edit]) -> str:
    pieces, end = [], 0
    for start, stop, instead in edits:
        pieces += [text[end:start], instead]
        end = stop
    return "".join([*pieces, text[end:]]) if end or pieces else text


def _traced(text: str, steps: Iterable[Step]) -> list[tuple[int, int]]:
    """For every character that the steps leave, the start and end of what it comes from."""
    spans = [(place, place + 1) for place in range(len(text))]
    for step in steps:
        edits = list(step(text))
        spans = _edited_spans(spans, edits)
        text = _edited(text, edits)
    return spans


def _edited_spans(spans: list[tuple[int, int]], edits: Iterable[Edit]) -> list[tuple[int, int]]:
    kept, end = [], 0
    for start, stop, instead in edits:
        kept += spans[end:start]
        last = spans[max(start, stop - 1)]
        kept += [(spans[start][0], last[1] if stop > start else last[0])] * len(instead)
        end = stop
    return kept + spans[end:]


# The steps: each yields its edits in the order of the text


def _dropped(text: str) -> Iterator[Edit]:
    return ((*match.span(), "") for match in _DROPPED.finditer(text))


def _at_most_30(text: str) -> Iterator[Edit]:
    return ((*match.span(1), "") for match in _MANY.finditer(text))


def _unglued(text: str) -> Iterator[Edit]:
    for match in () if is_normalized("NFKC", text) else _GLUED.finditer(text):
        yield *match.span(), f"^{match[0]}" if match[1] else f" {match[0]}"


def _signs(text: str) -> Iterator[Edit]:
    return ((*match.span(), _STRAIGHT[match[0]]) for match in _SIGNS.finditer(text))


def _nfkc(text: str) -> Iterator[Edit]:
    if is_normalized("NFKC", text):
        return
    for run in _UNLIKE_ASCII.finditer(text):
        if not is_normalized("NFKC", run[0]):
            yield from _nfkc_by_letter(run)


def _nfkc_by_letter(run: re.Match[str]) -> Iterator[Edit]:
    """Letters by themselves, each with the marks and syllable parts that may join it."""
    starts = [place for place, sign in enumerate(run[0]) if not place or not _joins(sign)]
    for start, end in zip(starts, [*starts[1:], len(run[0])], strict=True):
        letter = run[0][start:end]
        if (normal := normalize("NFKC", letter)) != letter:
            yield run.start() + start, run.start() + end, normal


def _joins(sign: str) -> bool:
    first = normalize("NFKD", sign)[0]
    return category(first).startswith("M") or "\u1160" <= first <= "\u11ff"


def _white_space(text: str) -> Iterator[Edit]:
    for match in _WHITE.finditer(text):
        inner = match.start() > 0 and match.end() < len(text)
        yield *match.span(), " " if inner else ""


def _emphasis(text: str) -> list[Edit]:
    """The marks that are pairs. They pair by kind, not by nesting, so that what is left holds no pair of its kind."""
    waiting, pairs = defaultdict[str, list[tuple[int, int]]](list), []
    for run in _MARKS.finditer(text):
        opens, closes = _sides(text, run)
        if closes and waiting[run[0]]:
            pairs += [waiting[run[0]].pop(), run.span()]
        elif opens:
            waiting[run[0][::-1]].append(run.span())
    return [(start, end, "") for start, end in sorted(pairs)]


def _sides(text: str, run: re.Match[str]) -> tuple[bool, bool]:
    """Return whether a run of marks may be the first of a pair, and the second."""
    before, after = text[max(run.start() - 1, 0) : run.start()], text[run.end() : run.end() + 1]
    if run[0] == "__":
        return False, False
    letter = _LETTER if "_" in run[0] else _SPACED_LETTER
    opens = after and after != " " and not letter.match(before)
    closes = before and before != " " and not letter.match(after)
    return bool(opens), bool(closes)


def _half_pairs(text: str) -> Iterator[Edit]:
    return ((*run.span(), "") for run in _MARKS.finditer(text) if any(_sides(text, run)))


def _folded(text: str) -> Iterator[Edit]:
    for place, sign in enumerate(text):
        if (folded := sign.casefold()) != sign:
            yield place, place + 1, folded


_BEYOND_ASCII: tuple[Step, ...] = (_dropped, _at_most_30, _unglued, _signs, _nfkc, _signs)
"""Nothing of ASCII changes in these. NFKC makes signs, and breaks up others, so they are read before and after it."""
_STEPS: tuple[Step, ...] = (*_BEYOND_ASCII, _white_space, *[_emphasis] * _PASSES, _folded)
