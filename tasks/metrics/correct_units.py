"""Units that contain a gold answer: answer recall@k, and how far down the ranking the first one is.

A unit is correct when a gold answer's tokens stand in its text in a row, as in DPR's top-k retrieval accuracy
(Karpukhin et al., 2020, arXiv 2004.04906, section 5.1): tokens are runs of letters and digits, and every other sign by
itself, in lower case and one Unicode form. Articles and punctuation count, unlike in answers: gold answers are quoted
from passages, and "1990" has to match in "1990–95".

A question without gold answers, or without retrieval, is left out. One that has no hit counts as a miss.
"""

import re
import unicodedata
from collections.abc import Sequence

from tasks.metrics.base import GOLD_ANSWERS, HITS, SCALE, Case, Column, PerQuestion, RankOptions, Values

MISSING = -1.0
_TOKENS = re.compile(r"\w+|[^\w\s]")


def _tokens(text: str) -> str:
    """Its tokens between blanks: a run of them is a substring."""
    return f" {' '.join(_TOKENS.findall(unicodedata.normalize('NFC', text).lower()))} "


def first_correct(case: Case) -> int | None:
    """The rank of the first unit that contains a gold answer, from 1; 0: none does; None: no ground."""
    if not case.answers or case.hits is None:
        return None
    gold = [tokens for answer in case.answers if (tokens := _tokens(answer)).strip()]
    for rank, hit in enumerate(case.hits, 1):
        text = _tokens(hit.text)
        if any(answer in text for answer in gold):
            return rank
    return 0


class AnswerRecall(PerQuestion):
    """Whether one of the first k units contains a gold answer. Its mean is DPR's top-k retrieval accuracy."""

    Options = RankOptions

    def columns(self) -> list[Column]:
        needs = (HITS, GOLD_ANSWERS)
        return [
            Column(f"answer_recall@{k}", f"answer recall@{k}", needs=needs, detail=True)
            for k in dict.fromkeys(self.options.k)
        ]

    def score(self, cases: Sequence[Case]) -> Values:
        ranks = [first_correct(case) for case in cases]
        return {
            f"answer_recall@{k}": [None if rank is None else float(0 < rank <= k) for rank in ranks]
            for k in self.options.k
        }


class FirstRank(PerQuestion):
    """Rank of the first correct unit in percent of the index's units, −1 when it is missing (ParetoRAG, figure 5).

    A second column, `first_rank_missing`, is 1 where it is missing: a mean over ranks and −1s falls when more are
    missed, so it is to be read beside this share.
    """

    def columns(self) -> tuple[Column, Column]:
        needs = (HITS, GOLD_ANSWERS)
        return (
            Column("first_rank", "first rank", "% of units", "lower", needs),
            Column("first_rank_missing", "first rank missing", SCALE, "lower", needs),
        )

    def score(self, cases: Sequence[Case]) -> Values:
        percents = [_percent(case) for case in cases]
        return {
            "first_rank": percents,
            "first_rank_missing": [None if percent is None else float(percent == MISSING) for percent in percents],
        }


def _percent(case: Case) -> float | None:
    rank = first_correct(case)
    if rank is None or not case.units:
        return None
    return 100 * rank / case.units if rank else MISSING
