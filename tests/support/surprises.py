"""A causal model whose tokens are words, and whose surprise at a word is the number in it: what refiners that ask for
surprises keep can be worked out by hand."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from vitalfew.tasks.models.causal.surprise import Surprise

_WORD = re.compile(r"\s*\S+|\s+$")
KNOWN = 0.5
"""The surprise at a word that stands before."""


@contextmanager
def words() -> Iterator[None]:
    """Every `Surprise` is such a model."""
    vocabulary: list[str] = []

    def places(self: Any, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        found = []
        for text in texts:
            matches = [*_WORD.finditer(text)]
            vocabulary.extend({match[0].strip() for match in matches} - {*vocabulary})
            numbers = [vocabulary.index(match[0].strip()) for match in matches]
            found.append((numbers, [match.end() for match in matches]))
        return found

    def surprise(number: int, before: Sequence[int]) -> float:
        return KNOWN if number in before else float(re.sub(r"\D", "", vocabulary[number]) or 0)

    def of(
        self: Any,
        rows: Sequence[tuple[Sequence[int], Sequence[int]]],
        tick: Callable[[int], None],
        started: bool = True,
    ) -> list[NDArray[np.float32]]:
        return [
            np.array([surprise(number, [*before, *ids[:place]]) for place, number in enumerate(ids)], np.float32)
            for before, ids in rows
        ]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Surprise, "places", places)
        patched.setattr(Surprise, "encode", lambda self, texts: [ids for ids, _ in places(self, texts)])
        patched.setattr(Surprise, "of", of)
        patched.setattr(Surprise, "limit", 1000)
        # What it reads on, it reads anew.
        patched.setattr("vitalfew.tasks.models.causal.surprise.continues", lambda model: False)
        yield
