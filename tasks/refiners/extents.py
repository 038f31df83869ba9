"""How far a context reaches around the unit that was retrieved: `refine.text`.

`window` is the sentence window of LlamaIndex and others: a hit's sentence with `refine.window` sentences on either side
of it, in its passage. Windows of one passage that overlap or adjoin become one context, so that none repeats a
sentence. `passage` is the parent passage: the whole of it, once. Either way a context has the place of its best hit.

A hit that is no sentence of its passage (a passage, a proposition) is its own window.
"""

from collections.abc import Mapping, Sequence

Span = tuple[int, int]
"""A half-open range of characters in a passage."""
Place = tuple[int, Span]
"""Passage id, and what of it was retrieved; start = end: a model wrote it, and it is no part of the passage."""
Extent = tuple[int, Span]
"""The number of the best hit of a context, from 0, and what of its passage the context is."""


def windows(hits: Sequence[Place], sentences: Mapping[int, Sequence[Span]], reach: int) -> list[Extent]:
    """The windows of a question's hits, best first. `sentences`: of every passage, in order; `reach`: how many of them
    on either side of a hit."""
    extents: list[Extent] = []
    best: dict[int, dict[int, int]] = {}
    for number, (passage, span) in enumerate(hits):
        known = sentences.get(passage, ())
        if span not in known:
            extents.append((number, span))
            continue
        at = known.index(span)
        covered = best.setdefault(passage, {})
        for sentence in range(max(0, at - reach), min(len(known), at + reach + 1)):
            covered.setdefault(sentence, number)
    for passage, covered in best.items():
        for run in _runs(sorted(covered)):
            span = sentences[passage][run[0]][0], sentences[passage][run[-1]][1]
            extents.append((min(covered[sentence] for sentence in run), span))
    return sorted(extents)


def parents(hits: Sequence[Place], lengths: Mapping[int, int]) -> list[Extent]:
    """The whole passages of a question's hits, best first. `lengths`: of every passage, in characters."""
    first: dict[int, int] = {}
    for number, (passage, _) in enumerate(hits):
        first.setdefault(passage, number)
    return [(number, (0, lengths[passage])) for passage, number in first.items()]


def inside(sentences: Sequence[Span], span: Span) -> tuple[Span, ...]:
    """The sentences that a context has, in order."""
    return tuple(each for each in sentences if span[0] <= each[0] < each[1] <= span[1])


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """Ascending numbers in runs without a gap."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs
