"""How far reviewers agree beyond chance: Krippendorff's alpha of verdicts that are names, with gaps (Krippendorff,
Computing Krippendorff's Alpha-Reliability, 2011, section C).

    α = 1 − D_observed / D_expected

Only items that at least two reviewers gave a verdict on count. D_observed is the share of different verdicts among the
pairs of verdicts on the same item, in which an item counts with as many verdicts as it has; D_expected is that share
among the pairs of all those verdicts, whatever their item. Alpha is 1 where all agree, 0 where they agree as often as
by chance, and below 0 where they agree less often than that. Krippendorff asks for 0.8, and for 0.667 where conclusions
are tentative (Content Analysis, 2004, chapter 11).

The computation is NLTK's. Deviation: where all verdicts are the same, NLTK gives 1, and there is no alpha here, as in
Krippendorff: D_expected is 0, and nothing shows that the reviewers would have seen a difference.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class GivenVerdict(NamedTuple):
    """A reviewer's verdict on an item: one of a fixed set, in which no order counts."""

    reviewer: str
    item: str
    verdict: str


@dataclass(frozen=True, slots=True)
class ReviewersAgreement:
    """Krippendorff's `alpha`, at most 1; `reason`: why there is none, None where there is one.

    `items`: that at least two reviewers gave a verdict on; `verdicts`: on those items, from so many `reviewers`.
    """

    alpha: float | None
    items: int
    verdicts: int
    reviewers: int
    reason: str | None


def distinct(verdicts: Iterable[GivenVerdict]) -> list[GivenVerdict]:
    """The first verdict of every reviewer on every item."""
    first: dict[tuple[str, str], GivenVerdict] = {}
    for each in verdicts:
        first.setdefault((each.reviewer, each.item), each)
    return [*first.values()]


def agreement(verdicts: Iterable[GivenVerdict]) -> ReviewersAgreement:
    """The agreement of reviewers, of whom none need see all items; of several verdicts on an item a reviewer's first
    counts. A verdict that says nothing, such as a skip, is not one: leave it out. The judge may be a reviewer.
    """
    given = distinct(verdicts)
    times = Counter(each.item for each in given)
    paired = [each for each in given if times[each.item] > 1]
    said = {each.verdict for each in paired}
    reason = None if said else "no item has verdicts from two reviewers"
    if len(said) == 1:
        reason = f"all verdicts are {paired[0].verdict!r}: nothing shows whether reviewers would agree on a difference"
    alpha = None
    if reason is None:
        from nltk.metrics.agreement import AnnotationTask  # type: ignore[import-untyped, unused-ignore]

        alpha = float(AnnotationTask(data=paired).alpha())
    return ReviewersAgreement(
        alpha=alpha,
        items=len({each.item for each in paired}),
        verdicts=len(paired),
        reviewers=len({each.reviewer for each in paired}),
        reason=reason,
    )
