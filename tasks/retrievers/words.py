"""The words that BM25 counts: Lucene's English analysis, as Anserini and Pyserini have it by default.

Lower case, runs of letters and digits, Lucene's 33 English stop words left out, Porter's stemmer (Porter, 1980).
Deviation: an apostrophe always ends a word ("don't" is "don" and "t"), where Lucene strips only a possessive "'s".
"""

from collections.abc import Sequence
from typing import cast

import bm25s
import Stemmer

VERSION = "1"
PATTERN = r"(?u)\b\w+\b"


def words(texts: Sequence[str]) -> list[list[str]]:
    """The words of every text, in order, repetitions included."""
    if not texts:
        return []
    texts_words = bm25s.tokenize(
        list(texts),
        token_pattern=PATTERN,
        stopwords="en",
        stemmer=Stemmer.Stemmer("porter"),
        return_ids=False,
        show_progress=False,
    )
    return cast(list[list[str]], texts_words)
