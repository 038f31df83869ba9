"""The tokens of a text as the encoder minilm reads it, whatever encoder is used: a measure of length."""

from functools import cache
from typing import TYPE_CHECKING
from unicodedata import normalize

from vitalfew.tasks.models.files import minilm_directory

if TYPE_CHECKING:
    from tokenizers import Tokenizer


LONG = 32
"""Characters of a token that the encoder does not know, at least."""


@cache
def _tokenizer() -> "Tokenizer":
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm_directory() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def are_at_most(text: str, most: int) -> bool:
    """Return whether a text is so short that it has at most so many tokens, whatever it says: each is a character of
    its decomposed form, or more."""
    return len(text if text.isascii() else normalize("NFD", text)) <= most


def ends(text: str) -> list[int]:
    """Where the tokens of a text end, in its characters. A word that the encoder takes for unknown because it is long,
    as a run of Thai is, counts by four characters."""
    offsets = _tokenizer().encode(text, add_special_tokens=False).offsets
    return [place for start, end in offsets for place in (*range(start + 4, end if end - start > LONG else 0, 4), end)]
