"""Questions without a language model: a sentence of the passage in which a name or a number is a gap.

Such a question measures retrieval: does a search with the rest of the sentence find its passage? It says little about
answers, because nobody asks like this, and nearly all words of the question are in the passage: methods that search
by words look better than on questions of people. Compare methods on these questions alone, and not with other figures.

A sentence is used if it is prose: 40 to 300 characters, at least six words, mostly letters, with a mark at its end, and
without signs of code, tables or link lists. A number is one in digits that stands by itself. A name is a run of words
that begin with a capital letter, not at the sentence's beginning, and that the passage lacks in lower case; so in
German nouns are names, and a language without capital letters has numbers alone. Texts without spaces between words
give no questions. The gap's text stands once in the sentence. Sentence and gap are drawn by the seed and the passage.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import ClassVar

from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.writers.base import GivenPassage, Refusal, Writer, WrittenQuestion

GAP = "_____"
SHORTEST, LONGEST = 40, 300
"""Characters of a sentence that is used."""
FEWEST_WORDS = 6
LETTERS = 0.6
"""The least share of letters among the characters of prose besides white space."""

_CODE = re.compile(r"[|{}=<>\\;$^~#]|\]\(|```|--|://|\(\)|[./]\w+/|_\w+_")
_END = re.compile(r"[.!?…。！？][\"'”’»)\]*_]*$")
_MARKER = re.compile(r"^(?:[-*+•>]+\s+|\(?\d+[.)]\s+)+")
_NUMBER = re.compile(r"(?<![\w.,:/+-])\d+(?:[.,:]\d+)*(?![\w/-])(?![.,:]\d)")
_WORD = re.compile(r"[\w'’-]+")


class Cloze(Writer):
    """Sentences with a name or number left out, by no language model: they measure retrieval, not answers."""

    needs_sentences: ClassVar[bool] = True
    measures: ClassVar[str] = "retrieval, not answers"

    def write(self, passages: Sequence[GivenPassage], tick: Tick = no_tick) -> list[WrittenQuestion | Refusal]:
        tick(len(passages), 0)
        return [self._written(passage) for passage in passages]

    def _written(self, passage: GivenPassage) -> WrittenQuestion | Refusal:
        # In one line, without the marker of a list's item.
        sentences = (_MARKER.sub("", " ".join(each.split())) for each in passage.sentences)
        prose = [text for text in sentences if is_prose(text)]
        if not prose:
            return Refusal("no_sentence")
        lower = words_in_lower_case(passage.text)
        found = [(text, *gap) for text in prose for gap in gaps(text, lower)]
        if not found:
            return Refusal("no_name_or_number")
        # A kind first: else the many numbers of one sentence would leave no name.
        kinds = sorted({kind for *_, kind in found})
        kind = kinds[self._chance(passage, "kind") % len(kinds)]
        found = [each for each in found if each[-1] == kind]
        text, start, end, kind = found[self._chance(passage, "gap") % len(found)]
        return WrittenQuestion(f"{text[:start]}{GAP}{text[end:]}", text[start:end], text, kind)

    def _chance(self, passage: GivenPassage, what: str) -> int:
        digest = blake2b(f"{self.options.seed} {passage.passage_id} {what}".encode(), digest_size=8)
        return int.from_bytes(digest.digest(), "little")


def is_prose(text: str) -> bool:
    """Return whether a sentence is prose of a fit length."""
    if not SHORTEST <= len(text) <= LONGEST or len(text.split()) < FEWEST_WORDS:
        return False
    signs = [sign for sign in text if not sign.isspace()]
    letters = sum(sign.isalpha() for sign in signs)
    return bool(_END.search(text)) and not _CODE.search(text) and letters >= LETTERS * len(signs)


def words_in_lower_case(text: str) -> set[str]:
    """Words of a text that cannot be names, as they are in it without a capital letter."""
    return {word for word in _WORD.findall(text) if word.islower()}


def gaps(text: str, lower: set[str]) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind (name, year, number) of what may be left out of a sentence. `lower`: words of the
    passage in lower case, which cannot be names."""
    for start, end in numbers(text):
        if _stands_once(text, text[start:end]):
            is_year = re.fullmatch(r"1\d{3}|20\d{2}", text[start:end])
            yield start, end, "year" if is_year else "number"
    for start, end in names(text, lower):
        if _stands_once(text, text[start:end]):
            yield start, end, "name"


def numbers(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of numbers in digits that stand by themselves."""
    yield from (found.span() for found in _NUMBER.finditer(text))


def names(text: str, lower: set[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of runs of words that begin with a capital letter, other than the first word. `lower`: as for
    `gaps`."""
    run: list[re.Match[str]] = []
    for word in [*_WORD.finditer(text), None]:
        own = word and word.start() > 0 and word[0][0].isupper() and word[0].lower() not in lower
        joins = word and run and text[run[-1].end() : word.start()] == " "
        if run and not (own and joins):
            if run[-1].end() - run[0].start() > 1:
                yield run[0].start(), run[-1].end() - 2 * run[-1][0].endswith(("'s", "’s"))
            run = []
        if word and own and not _begins_anew(text, word.start()):
            run.append(word)


def _begins_anew(text: str, start: int) -> bool:
    """Return whether a word stands where any word would have a capital letter."""
    before = text[:start].rstrip(" \"'“‘«(*_`")
    return not before or before[-1] in ".!?:…"


def _stands_once(text: str, part: str) -> bool:
    return len(re.findall(rf"(?<!\w){re.escape(part)}(?!\w)", text, re.IGNORECASE)) == 1
