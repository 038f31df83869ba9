"""Sentences of any language by rules: sentencex (Wikimedia, MIT), which knows the marks, quotation marks and
abbreviations of some 240 languages.

The language is `split.language`, or else that of the script that most of a passage's letters have, such as Japanese
for Kana. Scripts count by words: a letter of a script without blanks as three. For a script of many languages, its most
frequent one stands for all: their marks are the same.

Deviations: a Japanese sentence goes on after a quotation with と (「はい。」と言った。); blank lines end sentences and
items of lists begin them, as with Punkt, and white space belongs to the sentence before. The time of sentencex is
quadratic, so a long text is read a window at a time.
"""

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from vitalfew.tasks.splitters.base import Parameters, TrainedOptions
from vitalfew.tasks.splitters.partition import Ranges, begun_at

ENGLISH = "en"
_SCRIPTS = {
    "ja": "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff",
    "ko": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
    "zh": "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "th": "\u0e01-\u0e4e",
    "lo": "\u0e81-\u0ede",
    "my": "\u1000-\u109f",
    "km": "\u1780-\u17d3",
    "ru": "\u0400-\u052f",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "hy": "\u0531-\u0588",
    "he": "\u05d0-\u05f4",
    "ar": "\u0620-\u06d3\u06fa-\u077f",
    "hi": "\u0900-\u0963\u0970-\u097f",
    "bn": "\u0980-\u09ff",
    "pa": "\u0a01-\u0a7f",
    "gu": "\u0a81-\u0aff",
    "or": "\u0b01-\u0b7f",
    "ta": "\u0b82-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "si": "\u0d81-\u0df4",
    "am": "\u1200-\u139f",
    "ka": "\u10a0-\u10ff",
}
"""The letters of a script, by a language that it stands for."""
_UNSPACED = ("ja", "ko", "zh", "th", "lo", "my", "km")
_OTHER = re.compile("|".join(f"(?P<{language}>[{letters}])" for language, letters in _SCRIPTS.items()))
_OTHERS = re.compile(f"[{''.join(_SCRIPTS.values())}]+")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_URDU = re.compile("[\u06d4\u0679\u0688\u0691\u06ba\u06d2]")
_QUOTED = re.compile("(?<=[」』])(?:と|って|、)")
_WHITE = re.compile(r"\s*+")
WINDOW = 1_000


def language_of(text: str) -> str:
    """The language that the script of a text stands for: en for Latin letters, or none at all."""
    if text.isascii() or 12 * len(others := "".join(_OTHERS.findall(text))) <= len(text):
        return ENGLISH
    counts = dict.fromkeys(_SCRIPTS, 0)
    for match in _OTHER.finditer(others):
        counts[match.lastgroup or ENGLISH] += 1
    if counts["ja"]:  # Japanese is written in Kana and Han
        counts["ja"] += counts.pop("zh")
    weights = {language: count * (3 if language in _UNSPACED else 1) for language, count in counts.items()}
    weights[ENGLISH] = len(_LATIN.findall(text))
    best = max(weights, key=weights.__getitem__)
    return "ur" if best == "ar" and _URDU.search(text) else best


def split(text: str, language: str) -> Ranges:
    """Character ranges that partition a text; none for the empty text."""
    return begun_at(text, _starts(text, language))


def _starts(text: str, language: str) -> Iterator[int]:
    place, last = len(text) - len(text.lstrip()), len(text.rstrip())
    for end in _ends(text, language):
        if place < end < last and not (language == "ja" and _QUOTED.match(text, end)):
            place = _WHITE.match(text, end).end()  # type: ignore[union-attr]
            yield place


def _ends(text: str, language: str) -> Iterator[int]:
    from sentencex import get_sentence_boundaries

    start = 0
    while start < len(text):
        found = get_sentence_boundaries(language, text[start : start + WINDOW])
        ends = [start + int(each["end_index"]) for each in found]
        if start + WINDOW < len(text):
            ends.pop()  # the window ends within its last sentence
        yield from ends
        start = ends[-1] if ends else start + WINDOW


class Sentencex:
    """Sentences by rules of some 240 languages (sentencex); learns nothing from the corpus."""

    class Options(TrainedOptions, extra="forbid"):
        pass

    version: ClassVar[str] = "1"

    def __init__(self, options: Options) -> None:
        self.options = options

    def train(self, texts: Iterable[str]) -> Parameters:
        """Nothing is learnt, and `texts` is not read."""
        return {}

    def load(self, parameters: Parameters) -> None:
        pass

    def split(self, text: str) -> list[tuple[int, int]]:
        return split(text, self.options.language or language_of(text))
