"""The length of a text, for any model: in tokens and in words.

A word is a run without white space. A token is a run of letters, their marks, digits and underscores, or any other sign
by itself; a run of letters of a script without blanks (`UNSPACED`) is as many tokens as it has pairs of neighbours, or
one by itself, as in Lucene's CJK analyser.
"""

import re
from itertools import pairwise
from typing import Any

import regex

UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0eff\u1000-\u1049\u1050-\u109d\u1100-\u11ff\u1780-\u17d3\u17d7"
    "\u17dc-\u17e9\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7fb"
    "\uf900-\ufaff\uff66-\uff9f\uffa1-\uffdc\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, Han, Kana and Hangul, as ranges of a regular expression."""

_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
_WORD = rf"(?:[^{UNSPACED}\p{{P}}\p{{S}}\p{{Z}}\p{{Cc}}\p{{Cf}}\p{{Co}}]|_)+"
TOKENS = (rf"[{UNSPACED}]|{_WORD}|[\p{{P}}\p{{S}}]", rf"[{UNSPACED}]{{2,}}")
"""As Arrow (RE2), which looks at no neighbours, counts them: the matches of the first less those of the second."""
_SINGLE = regex.compile(TOKENS[0])
_TOKEN = regex.compile(rf"{_WORD}|(?<=[{UNSPACED}])[{UNSPACED}]|[{UNSPACED}](?![{UNSPACED}])|[\p{{P}}\p{{S}}]")
_TERM = regex.compile(rf"[{UNSPACED}]+|{_WORD}")
_BETWEEN_BLANKS = re.compile(r"\S+")

# The same for text of Latin, Greek and Cyrillic letters without combining marks, six times as fast.
_NOT_PLAIN = re.compile(
    "[^\t\n\r -~\xa0-\xac\xae-\u02ff\u0391-\u03a1\u03a3-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e]"
)
_PLAIN_TOKEN = re.compile(r"\w+|[^\w\s]")
_PLAIN_TERM = re.compile(r"\w+")


def terms(text: str) -> list[str]:
    """The tokens of a text that are no signs, for keywords; a script without blanks is given as pairs of neighbours."""
    if text.isascii() or not _NOT_PLAIN.search(text):
        return _PLAIN_TERM.findall(text)
    return [term for run in _TERM.findall(text) for term in (_pairs(run) if _IS_UNSPACED.match(run) else [run])]


def singly(text: str) -> list[str]:
    """The words and signs of a text in order; a letter of a script without blanks is one by itself."""
    return _PLAIN_TOKEN.findall(text) if not _NOT_PLAIN.search(text) else _SINGLE.findall(text)


def _pairs(run: str) -> list[str]:
    return [first + second for first, second in pairwise(run)] or [run]


def _token(text: str) -> Any:
    """The expression that finds the tokens of a text."""
    return _TOKEN if _NOT_PLAIN.search(text) else _PLAIN_TOKEN


def count_tokens(text: str) -> int:
    return len(_token(text).findall(text))


def count_words(text: str) -> int:
    return len(text.split())


def first(text: str, words: int | None, tokens: int | None) -> str:
    """The longest start of a text that both budgets allow; it ends after a word or a punctuation mark."""
    for budget, parts in ((words, lambda text: _BETWEEN_BLANKS), (tokens, _token)):
        if budget is not None:
            ends = [0, *(match.end() for match in parts(text).finditer(text))]
            text = text if budget >= len(ends) - 1 else text[: ends[max(0, budget)]]
    return text
