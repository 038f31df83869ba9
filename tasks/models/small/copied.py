"""Texts put together of parts of other texts, word for word."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_FINAL = re.compile(r"[.!?…][\"'”’)\]]*$")
_LOOSE = " \t\r\n,;:–—(["
"""Characters that are stripped from a part's end."""


class CopiedRun(NamedTuple):
    """A part of a text: the number of the text among several, and a half-open range of its characters."""

    chunk: int
    start: int
    end: int


def trimmed(texts: Sequence[str], run: CopiedRun) -> CopiedRun | None:
    """Without white space around it, and without a comma or an opened bracket at its end; None if nothing is left."""
    text = texts[run.chunk][run.start : run.end]
    start = run.start + len(text) - len(text.lstrip())
    end = run.start + len(text.rstrip(_LOOSE))
    return CopiedRun(run.chunk, start, end) if start < end else None


def joined(texts: Sequence[str], runs: Sequence[CopiedRun]) -> list[CopiedRun]:
    """Join runs that follow one another in one text, across the white space between them."""
    whole: list[CopiedRun] = []
    for run in runs:
        last = whole[-1] if whole else None
        follows = last and last.chunk == run.chunk and last.end <= run.start
        if last and follows and not texts[run.chunk][last.end : run.start].strip():
            whole[-1] = CopiedRun(run.chunk, last.start, run.end)
        else:
            whole.append(run)
    return whole


def rendered(texts: Sequence[str], runs: Sequence[CopiedRun]) -> str:
    """The runs with a blank between them, or ". " where a run lacks final punctuation."""
    parts = [texts[run.chunk][run.start : run.end] for run in runs]
    ended = [part if _FINAL.search(part) else f"{part}." for part in parts[:-1]]
    return " ".join([*ended, *parts[-1:]])
