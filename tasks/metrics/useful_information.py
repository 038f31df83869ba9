"""Useful information: the share of the prompt's sentences that are supporting facts (ParetoRAG, table 2, appendix B).

Which sentences those are is said in `supporting_facts`. Its `sp_precision` counts facts where this counts sentences:
the two are the same number where the splitter cuts passages as the data set does.

`useful_information_bound` is what an oracle would get from as many sentences: the supporting facts over the sentences,
at most 1. HotpotQA's questions have 2 to 3 facts, so that no method can reach more than that share of a long evidence.
The table's 20.79 to 28.82 % at about 450 tokens are above that bound: 450 tokens are some 19 sentences. They fit the
share of the facts that was found, `sp_recall`; the experiment shows both readings.

A question without supporting facts, without evidence, or with a context of unknown origin is left out.
"""

from collections.abc import Sequence

from vitalfew.tasks.metrics.base import Case, Column, PerQuestion, Values
from vitalfew.tasks.metrics.supporting_facts import NEEDS, support


class UsefulInformation(PerQuestion):
    """Share of the evidence's sentences that are supporting facts, 0 to 1."""

    version = "2"  # since 2, what a budget has cut off a fact does not count as shown

    def columns(self) -> tuple[Column, Column]:
        return (
            Column("useful_information", "useful information", needs=NEEDS),
            Column("useful_information_bound", "useful information bound", needs=NEEDS, detail=True),
        )

    def score(self, cases: Sequence[Case]) -> Values:
        pairs = [_share(case) for case in cases]
        return {
            "useful_information": [pair and pair[0] for pair in pairs],
            "useful_information_bound": [pair and pair[1] for pair in pairs],
        }


def _share(case: Case) -> tuple[float, float] | None:
    """The share that it is and the largest that it could be; None without ground."""
    known = support(case)
    if known is None or not known.sentences:
        return None
    return known.useful / known.sentences, max(known.useful, min(known.facts, known.sentences)) / known.sentences
