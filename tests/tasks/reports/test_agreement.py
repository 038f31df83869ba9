"""Krippendorff's alpha: his worked examples, a computation by hand, verdicts without an alpha, bad input."""

import pytest

from vitalfew.tasks.reports.statistics.agreement import GivenVerdict, ReviewersAgreement, agreement


def read(*rows: str) -> list[GivenVerdict]:
    """A row per reviewer, a sign per item; a dot is a gap."""
    return [
        GivenVerdict(f"reviewer {row}", f"item {place}", sign)
        for row, signs in enumerate(rows)
        for place, sign in enumerate(signs)
        if sign != "."
    ]


@pytest.mark.parametrize(
    ("rows", "alpha", "items", "verdicts"),
    [
        (("0100000010", "1110010000"), 0.095, 10, 20),  # section A: two values
        (("aabbdcccedda", "babbbccceddd"), 0.692, 12, 24),  # section B: names
        (("123321412...", "1233224125.3", ".3332342251.", "12332441251."), 0.743, 11, 40),  # section C: gaps
    ],
)
def test_krippendorffs_worked_examples(rows: tuple[str, ...], alpha: float, items: int, verdicts: int) -> None:
    own = agreement(read(*rows))
    assert own.alpha == pytest.approx(alpha, abs=0.0005)
    assert (own.items, own.verdicts, own.reviewers, own.reason) == (items, verdicts, len(rows), None)


@pytest.mark.parametrize("rows", [(), ("1212",), ("12..", "..12")])
def test_items_that_nobody_shares_have_no_alpha(rows: tuple[str, ...]) -> None:
    assert agreement(read(*rows)) == ReviewersAgreement(None, 0, 0, 0, "no item has verdicts from two reviewers")


def test_two_verdicts_of_a_reviewer_on_an_item_are_refused() -> None:
    twice = [*read("12", "12"), GivenVerdict("reviewer 0", "item 1", "1")]
    with pytest.raises(ValueError, match="reviewer 0 gives more than one verdict on item 1: keep the one that counts"):
        agreement(twice)
