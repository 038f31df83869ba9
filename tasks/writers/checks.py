"""Faults of a written question: it is like an earlier one, copies its passage, or gives its answer away.

Words are compared in lower case, without marks.
"""

import re
from collections import Counter, defaultdict
from difflib import SequenceMatcher

LIKE = 0.8
"""Share of the words of two questions that are common to both, from which on they are alike, unless they differ in a
name or a number."""
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.casefold())


def _marked(text: str) -> set[str]:
    """The words that distinguish a text from another of the same pattern: with a digit, or a capital letter that is not
    the first word's."""
    words = enumerate(_WORD.findall(text))
    return {word.casefold() for place, word in words if re.search(r"\d", word) or (place and word[0].isupper())}


class Earlier:
    """The questions that were kept so far. Time and memory follow their number and their words."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._words: list[set[str]] = []
        self._having = defaultdict[str, list[int]](list)

    def like(self, text: str) -> str:
        """The earlier question that this one is like; '' if there is none, and the question is an earlier one now."""
        words, marked = set(words_of(text)), _marked(text)
        common = Counter(number for word in words for number in self._having[word])
        for number, count in common.items():
            own = self._words[number]
            if count >= LIKE * len(words | own) and not (words ^ own) & (marked | _marked(self.texts[number])):
                return self.texts[number]
        for word in words:
            self._having[word].append(len(self.texts))
        self.texts.append(text)
        self._words.append(words)
        return ""


def common_run(one: str, other: str) -> int:
    """The most words in a row that two texts have in common."""
    matcher = SequenceMatcher(None, words_of(one), words_of(other), autojunk=False)
    return matcher.find_longest_match().size


def sentence_with(name: str, text: str) -> str:
    """The part of a text around a name, from one mark of a sentence's end to the next, in one line. A mark within an
    abbreviation cuts it short; the name itself is always in it."""
    at = text.index(name)
    start = max([0, *(found.end() for found in _ENDS.finditer(text, 0, at))])
    end = _ENDS.search(text, at + len(name))
    return " ".join(text[start : end.end() if end else len(text)].split())


_ENDS = re.compile(r"[.!?…](?=\s)|\n\s*\n")
_FUNCTION_WORDS = frozenset(
    words_of(
        "a an and are as at be but by did do does for from had has have he her his how if in into is it its many much "
        "no not of on or she so some such than that the their them then there these they this those to up was were "
        "what when where which who whom whose why will with would"
    )
)


def gives_away(question: str, answer: str) -> str:
    """A word of the answer that is in the question; '' if none is. English words such as "of" do not count unless
    the answer has no others."""
    said = words_of(answer)
    content = [word for word in said if word not in _FUNCTION_WORDS] or said
    asked = set(words_of(question))
    return next((word for word in content if word in asked), "")
