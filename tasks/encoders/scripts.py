"""Scripts that an encoder does not know: it reads their words letter by letter, or as unknown tokens.

A tokenizer knows a script if its vocabulary has parts of words in it. An English one has single letters of Cyrillic or
Arabic at most, breaks up Korean syllables, and lacks most Chinese signs; a byte-level one without the script takes
several tokens a letter. Latin is not judged: of its languages, letters say nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from unicodedata import category, name

from tokenizers import Encoding

LETTERS = "letters"
"""Note: the letters that were looked at, of any script."""
UNREAD = "unread "
"""The beginning of a note: the letters of a script that the encoder does not know."""
MOST_TEXTS, MOST_SIGNS = 400, 500
"""How many texts are looked at, and how many characters of each."""
_UNKNOWN = frozenset(("[UNK]", "<unk>"))
_BY_SIGN = frozenset(("CJK", "HIRAGANA", "KATAKANA", "HANGUL"))
"""Scripts in which a token of one sign is as it should be."""
_HALF = 0.5


def unread(texts: Sequence[str], encode: Callable[[Sequence[str]], Sequence[Encoding]]) -> dict[str, int]:
    """Count the letters of the first texts, and those of every script of which the encoder reads less than half."""
    seen, lost = Counter[str](), Counter[str]()
    some = [text[:MOST_SIGNS] for text in texts[:MOST_TEXTS]]
    seen["LATIN"] = sum(sum(map(str.isalpha, text)) for text in some if text.isascii())
    others = [text for text in some if not text.isascii()]
    for text, encoding in zip(others, encode(others), strict=True):
        for script, is_lost in _letters(text, encoding):
            seen[script] += 1
            lost[script] += is_lost
    unknown = [script for script in sorted(seen) if lost[script] > _HALF * seen[script]]
    return {LETTERS: seen.total(), **{f"{UNREAD}{script}": seen[script] for script in unknown}}


def _letters(text: str, encoding: Encoding) -> Iterator[tuple[str, bool]]:
    """The script of every letter that some token covers, and whether the letter is lost in it."""
    tokens, lengths, is_unknown = Counter[int](), dict[int, int](), dict[int, bool]()
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        for place in range(start, end):
            tokens[place] += 1
            lengths[place], is_unknown[place] = end - start, token in _UNKNOWN
    for is_word, group in groupby(enumerate(text), key=lambda sign: category(sign[1])[0] in "LM"):
        word = [*group]
        for place, letter in word if is_word else ():
            if (script := _script(letter)) and place in tokens:
                alone = lengths[place] == 1 < len(word) and script not in _BY_SIGN
                yield script, script != "LATIN" and (is_unknown[place] or tokens[place] > 1 or alone)


@lru_cache(1 << 14)
def _script(letter: str) -> str:
    """The first word of a letter's name in Unicode, which is its script; "" of a mark."""
    return name(letter, "").partition(" ")[0] if category(letter)[0] == "L" else ""
