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
def words(limit: int = 1000, broken: str = "") -> Iterator[list[tuple[list[str], list[str]]]]:
    """Every `Surprise` is such a model; gives the rows that it read. `broken`: a word at which it is NaN."""
    vocabulary: list[str] = []
    rows_read: list[tuple[list[str], list[str]]] = []

    def places(self: Any, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        found = []
        for text in texts:
            matches = [*_WORD.finditer(text)]
            vocabulary.extend({match[0].strip() for match in matches} - {*vocabulary})
            found.append(
                ([vocabulary.index(match[0].strip()) for match in matches], [match.end() for match in matches])
            )
        return found

    def surprise(before: Sequence[str], word: str) -> float:
        if word == broken:
            return float("nan")
        return KNOWN if word in before else float(re.sub(r"\D", "", word) or 0)

    def of(
        self: Any,
        rows: Sequence[tuple[Sequence[int], Sequence[int]]],
        tick: Callable[[int], None],
        started: bool = True,
    ) -> list[NDArray[np.float32]]:
        named = [([vocabulary[id] for id in before], [vocabulary[id] for id in ids]) for before, ids in rows]
        rows_read.extend(named)
        tick(sum(len(before) + len(ids) for before, ids in rows))
        return [
            np.nan_to_num(
                np.array([surprise([*before, *ids[:place]], word) for place, word in enumerate(ids)], np.float32), nan=0
            )
            for before, ids in named
        ]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Surprise, "places", places)
        patched.setattr(Surprise, "encode", lambda self, texts: [ids for ids, _ in places(self, texts)])
        patched.setattr(Surprise, "of", of)
        patched.setattr(Surprise, "limit", property(lambda self: limit))
        patched.setattr(
            "vitalfew.tasks.models.causal.surprise.continues", lambda model: False
        )  # what it reads on, it reads anew
        yield rows_read
