"""Whether what a refiner passes on stands in what it was given: the share of its words that do.

Beside Oreo's faithfulness, which a language model judges (arXiv 2502.13019, section 4.5), a count that nobody can argue
with: a word is grounded that stands in a hit or its title, whatever the case, and names and numbers are counted apart.
By spelling, a name is a word with a capital that begins no sentence, a number has a digit. A context that only cuts,
orders and joins has 1; one that says something else of the same words has it, too. Contexts that reach beyond their
hits (refine.text=window, passage) count as ungrounded there. Without words, or without names, a question is left out.
"""

import re
import unicodedata
from collections.abc import Sequence

from vitalfew.tasks.metrics.base import CONTEXTS, HITS, Case, Column, PerQuestion, Values

_WORD = re.compile(r"\w+")
_OPENS = re.compile(r"(?:\A|[.!?:;\n])[^\w.!?]*\Z")
"""What stands before a word that begins a sentence."""


class Grounding(PerQuestion):
    """Share of the contexts' words, and of their names and numbers, that are in the hits; needs no model."""

    def columns(self) -> tuple[Column, ...]:
        needs = (CONTEXTS, HITS)
        return (
            Column("grounding", "grounding", needs=needs),
            Column("grounded_names", "grounded names and numbers", needs=needs),
        )

    def score(self, cases: Sequence[Case]) -> Values:
        shares = [_shares(case) for case in cases]
        return {
            "grounding": [words for words, _ in shares],
            "grounded_names": [names for _, names in shares],
        }


def _shares(case: Case) -> tuple[float | None, float | None]:
    if case.contexts is None or case.hits is None:
        return None, None
    given = case.hits if case.given is None else case.given
    source = {word.lower() for hit in given for word in _WORD.findall(_plain(f"{hit.title} {hit.text}"))}
    words: list[bool] = []
    names: list[bool] = []
    for context in case.contexts:
        text = _plain(context.text)
        for match in _WORD.finditer(text):
            grounded = match[0].lower() in source
            words.append(grounded)
            if any(sign.isdigit() for sign in match[0]) or (match[0][0].isupper() and not _begins(text, match.start())):
                names.append(grounded)
    return _share(words), _share(names)


def _begins(text: str, place: int) -> bool:
    """Whether the word at this place begins a sentence."""
    return bool(_OPENS.search(text[max(0, place - 8) : place])) if place else True


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _share(grounded: Sequence[bool]) -> float | None:
    return sum(grounded) / len(grounded) if grounded else None
