"""The length of a text, for any model: in tokens (here words and punctuation marks) and in words."""

import re

TOKEN = r"[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]"
"""A word or a punctuation mark, as Arrow (RE2) reads it."""
_TOKEN = re.compile(r"\w+|[^\w\s]")  # the same, as Python reads it
_WORD = re.compile(r"\S+")


def count_tokens(text: str) -> int:
    return sum(1 for _ in _TOKEN.finditer(text))


def count_words(text: str) -> int:
    return len(text.split())


def first(text: str, words: int | None, tokens: int | None) -> str:
    """The longest start of a text that both budgets allow; it ends after a word or a punctuation mark."""
    for budget, pattern in ((words, _WORD), (tokens, _TOKEN)):
        if budget is not None:
            ends = [0, *(match.end() for match in pattern.finditer(text))]
            text = text if budget >= len(ends) - 1 else text[: ends[max(0, budget)]]
    return text
