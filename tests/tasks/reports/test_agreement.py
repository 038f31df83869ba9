"""Krippendorff's alpha: his worked examples, a computation by hand, verdicts without an alpha, bad input."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def by_hand(verdicts: list[GivenVerdict]) -> float | None:
    """1 − D_observed / D_expected, from all pairs one after the other."""
    items: dict[str, list[str]] = {}
    for each in verdicts:
        items.setdefault(each.item, []).append(each.verdict)
    paired = [signs for signs in items.values() if len(signs) > 1]
    every = [sign for signs in paired for sign in signs]
    if len(set(every)) < 2:
        return None
    observed = sum(sum(a != b for a, b in permutations(signs, 2)) / (len(signs) - 1) for signs in paired) / len(every)
    expected = sum(a != b for a, b in permutations(every, 2)) / (len(every) * (len(every) - 1))
    return 1 - observed / expected


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.text("12=.", min_size=n, max_size=n), min_size=1, max_size=4)))
@settings(max_examples=150, deadline=None)
def test_it_is_one_minus_observed_over_expected_disagreement_whatever_the_order(rows: list[str]) -> None:
    verdicts = read(*rows)
    own, alpha = agreement(verdicts), by_hand(verdicts)
    assert (own.alpha is None) == (own.reason is not None) == (alpha is None)
    if alpha is not None:
        assert own.alpha == pytest.approx(alpha)
        assert agreement(reversed(verdicts)).alpha == pytest.approx(alpha)


def test_full_agreement_is_one_and_constant_disagreement_below_zero() -> None:
    assert agreement(read("1212=", "1212=", "1.1.=")).alpha == 1
    own = agreement(read("1212", "2121"))
    assert own.alpha is not None
    assert own.alpha < -0.5


@pytest.mark.parametrize("rows", [(), ("1212",), ("12..", "..12")])
def test_items_that_nobody_shares_have_no_alpha(rows: tuple[str, ...]) -> None:
    assert agreement(read(*rows)) == ReviewersAgreement(None, 0, 0, 0, "no item has verdicts from two reviewers")


def test_verdicts_that_are_all_the_same_have_no_alpha() -> None:
    own = agreement(read("111.2", "11.1."))  # the 2 has nobody else's verdict
    assert own.alpha is None
    assert own.items == 2
    assert own.reason == "all verdicts are '1': nothing shows whether reviewers would agree on a difference"


def test_two_verdicts_of_a_reviewer_on_an_item_are_refused() -> None:
    twice = [*read("12", "12"), GivenVerdict("reviewer 0", "item 1", "1")]
    with pytest.raises(ValueError, match="reviewer 0 gives more than one verdict on item 1: keep the one that counts"):
        agreement(twice)
