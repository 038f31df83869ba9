"""Partners of passages: pairs that have a rare name or number in common, for questions of two hops.

Names and numbers are those that the writer `cloze` knows: runs of words with capital letters that do not begin a
sentence, and numbers, here of three digits or more. Time and memory follow the passages given, not a corpus.
"""

from collections import defaultdict
from collections.abc import Iterable

from vitalfew.tasks.writers.cloze import names, numbers, words_in_lower_case

MOST = 5
"""Passages with a name or number, at most; one in more of them distinguishes nothing."""
DIGITS = 3
"""Digits of a number, at least: small numbers are everywhere."""


def partners(passages: Iterable[tuple[int, str]]) -> dict[int, tuple[int, str]]:
    """By the id of a passage, its partner's id and what both have in common: the name or number that the fewest of the
    passages have, a name before a number, then the longest. Passages with nothing in common have no partner."""
    having = defaultdict[str, list[int]](list)
    for passage, text in passages:
        for name in _terms(text):
            having[name].append(passage)
    found = dict[int, tuple[int, str]]()
    shared = [name for name, own in having.items() if 1 < len(own) <= MOST]
    for name in sorted(shared, key=lambda name: (len(having[name]), name[0].isdigit(), -len(name), name)):
        own = having[name]
        for place, passage in enumerate(own):
            found.setdefault(passage, (own[place - 1], name))
    return found


def _terms(text: str) -> set[str]:
    lower, terms = words_in_lower_case(text), set[str]()
    for line in map(str.strip, text.splitlines()):
        terms |= {line[start:end] for start, end in names(line, lower)}
        terms |= {line[start:end] for start, end in numbers(line) if sum(map(str.isdigit, line[start:end])) >= DIGITS}
    return terms
