"""Titles before texts: a unit is encoded as "title: unit", as DPR (arXiv 2004.04906) and BEIR (arXiv 2104.08663) encode
passages.

"It was opened in 1894" says what was opened only with the title of its passage. Keywords and refiners put the title
there in the same way, so that what is searched, and what a prompt shows, is one text.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalfew.storage.ids import content_id

SEPARATOR = ": "
MOST_CHARS = 200
"""Characters of a title that are encoded, at most: the unit needs room in the encoder's window, and a passage whose
title is as long as itself would be multiplied by its sentences."""


def lead(title: str, separator: str = SEPARATOR) -> str:
    """The text before the units of a passage with this title; '' without one."""
    title = title[:MOST_CHARS].strip()
    return f"{title}{separator}" if title else ""


def identity(separator: str = SEPARATOR) -> dict[str, Any]:
    """The settings on which a text depends, besides the title and the unit."""
    return {"separator": separator, "chars": MOST_CHARS}


def salts(titles: Sequence[str]) -> NDArray[np.int64]:
    """A number for every title, int64 (n,), 0 for none: a unit's id XOR its salt is a key of the text encoded."""
    known = {title: content_id(lead(title)) if lead(title) else 0 for title in {*titles}}
    return np.array([known[title] for title in titles], np.int64)
