"""Intervals, tests, corrections and power: against simulations, published figures and scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from vitalfew.tasks.reports.papers import Figure, verdict
from vitalfew.tasks.reports.statistics.bootstrap import MANY, MIN_QUESTIONS, Interval, mean_interval, ratio_interval
from vitalfew.tasks.reports.statistics.paired import (
    Difference,
    corrected,
    holm,
    paired_bootstrap,
    questions_needed,
    visible_difference,
)

FEW = 200  # resamples, where the property does not depend on how many


# --- the interval ---


@pytest.mark.parametrize(("questions", "share"), [(10, 0.05), (10, 0.1), (30, 0.05), (200, 0.3)])
def test_the_intervals_of_a_rare_answer_hold_its_share(questions: int, share: float) -> None:
    """Bootstrap intervals of 0.1 over 10 questions would hold it in 65 %."""
    drawn = (np.random.default_rng(1).random((1000, questions)) < share).astype(float)
    held = np.mean([each.low <= share <= each.high for each in mean_interval(drawn, resamples=20)])
    assert 0.89 <= held <= 0.99  # Wilson's oscillates about 0.95: of 0.05 over 10 questions exactly 0.914


def test_the_interval_of_a_share_is_wilsons() -> None:
    """Newcombe (Statistics in Medicine 17, 1998, method 3) has 81 of 263 as 0.2553 to 0.3662."""
    [share] = mean_interval([[1.0] * 81 + [0.0] * 182 + [np.nan] * 3])
    assert (share.low, share.high, share.questions) == (
        *(pytest.approx(end, abs=1e-4) for end in (0.2553, 0.3662)),
        263,
    )
    [amount] = mean_interval([[0.0] * 30], may_be_share=[False])  # USD, of which none were paid
    assert (amount.low, amount.high) == (0, 0)
    few, mixed = mean_interval([[1.0] * 6 + [0.0] * 4, [1.0] * 6 + [0.0] * 3 + [0.5]])
    assert mixed.low != few.low


def test_too_few_questions_have_a_mean_but_no_interval() -> None:
    few, none = mean_interval([[1.0] * (MIN_QUESTIONS - 1) + [np.nan], [np.nan] * MIN_QUESTIONS])
    assert (few.mean, few.low, few.high, few.questions) == (1.0, None, None, 9)
    assert (none.mean, none.low, none.questions) == (None, None, 0)


# --- differences to the baseline ---


def test_a_method_that_equals_the_baseline_has_no_difference() -> None:
    seeds = np.random.default_rng(0).integers(0, 2, (3, 40)).astype(float)
    baseline = seeds.mean(axis=0)
    same_but_for_rounding = (seeds[0] / 3 + seeds[1] / 3) + seeds[2] / 3
    [found] = paired_bootstrap(baseline, [same_but_for_rounding])
    assert (found.mean_difference, found.low, found.high, found.p, found.sd, found.effect) == (0, 0, 0, 1, 0, 0)
    assert (found.better, found.worse, found.equal) == (0, 0, 40)


def test_p_is_that_of_all_sign_flips_counted_by_scipy() -> None:
    differences = np.array([0.5, -0.1, 0.3, 0.2, 0.4, -0.3, 0.6, 0.1, 0.2, -0.2, 0.7])
    flips = stats.permutation_test((differences,), np.mean, permutation_type="samples", vectorized=True)  # all 2,048
    [found] = paired_bootstrap(np.zeros(11), [differences], resamples=FEW)
    assert found.p == pytest.approx(flips.pvalue)
    assert found.effect == pytest.approx(differences.mean() / differences.std(ddof=1))


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (9, 1), (20, 20), (31, 12), (300, 200), (1500, 1200)])
def test_p_of_answers_that_are_right_or_wrong_is_mcnemars_exact(better: int, worse: int) -> None:
    method = np.concatenate([np.ones(better), np.zeros(worse), np.ones(15)])
    baseline = np.concatenate([np.zeros(better), np.ones(worse), np.ones(15)])
    for scale in (1.0, 1 / 3):
        [found] = paired_bootstrap(baseline * scale, [method * scale], resamples=FEW)
        assert found.p == pytest.approx(stats.binomtest(better, better + worse).pvalue if better else 1)


# --- Holm ---


def test_holm_as_computed_by_hand() -> None:
    # sorted 0.005 0.01 0.03 0.04, times 4 3 2 1: 0.02 0.03 0.06 0.04 → 0.06
    assert holm([0.01, 0.04, None, 0.03, 0.005]) == [
        pytest.approx(0.03), pytest.approx(0.06), None, pytest.approx(0.06), pytest.approx(0.02),
    ]  # fmt: skip
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def _of_p(p: float | None) -> Difference:
    return Difference(0.1, 0.0, 0.2, p, 0.3, 0.3, 50, 20, 10, 20)


def test_p_is_corrected_for_the_methods_in_the_primary_metric_and_for_everything_in_others() -> None:
    p_values = [{"f1": 0.01, "recall": 0.02}, {"f1": 0.03, "recall": None}]
    found = corrected([{metric: _of_p(p) for metric, p in own.items()} for own in p_values], "f1")
    assert [{metric: each.p_holm for metric, each in own.items()} for own in found] == [
        {"f1": 0.02, "recall": 0.04}, {"f1": 0.03, "recall": None},
    ]  # fmt: skip


def test_costs_have_no_p_and_are_not_corrected_for_unless_they_are_primary() -> None:
    given = [{"f1": _of_p(0.01), "recall": _of_p(0.02), "tokens": _of_p(0.001), "seconds": _of_p(0.5)}]
    for primary, tested in (("f1", {"f1": 0.01, "recall": 0.02}), ("tokens", {"tokens": 0.001})):
        [found] = corrected(given, primary, ["tokens", "seconds"])
        known = {metric: each.p_holm for metric, each in found.items() if each.p is not None}
        assert known.items() >= tested.items()
        assert ("tokens" in known, "seconds" in known) == (primary == "tokens", False)
        assert all((each.low, each.high) == (0.0, 0.2) for each in found.values())


# --- ratios ---


def test_a_ratio_has_the_interval_of_the_delta_method() -> None:
    generator = np.random.default_rng(3)
    references = generator.gamma(20, 5, 800)
    values = 0.4 * references + generator.normal(0, 4, 800)
    found = ratio_interval(values, references)
    assert found.mean == pytest.approx(values.mean() / references.mean())
    se = (values - found.mean * references).std(ddof=1) / math.sqrt(800) / references.mean()  # Cochran, 1977, 6.10
    assert found.low == pytest.approx(found.mean - 1.96 * se, abs=se / 10)
    assert found.high == pytest.approx(found.mean + 1.96 * se, abs=se / 10)


# --- verdicts ---


@pytest.mark.parametrize(
    ("ends", "size", "margin", "said"),
    [
        ((0.1, 0.3), 0.2, 0.0, "replicated"),
        ((0.1, 0.3), 0.5, 0.0, "same direction"),
        ((0.1, 0.3), -0.1, 0.0, "no worse"),
        ((-0.1, 0.3), 0.2, 0.2, "no worse"),
        ((-0.1, 0.3), 0.2, 0.05, "open"),
        ((-0.3, -0.1), 0.2, 0.0, "contradicted"),
    ],
)
@pytest.mark.parametrize("side", ["higher", "lower"])
@pytest.mark.parametrize("neutral", [0, 1])
def test_a_verdict_goes_by_the_whole_interval(
    ends: tuple[float, float], size: float, margin: float, said: str, side: str, neutral: int
) -> None:
    """`ends`, `size`: from no difference, which is 1 for a ratio, towards the claimed side."""
    sign = 1 if side == "higher" else -1
    ours = {"method": "a", "metric": "f1", "over" if neutral else "minus": "b"}
    claim = Figure.model_validate({"what": "it", "claim": side, "margin": margin, "ours": ours})
    low, high = sorted(neutral + sign * end for end in ends)
    found = Interval((low + high) / 2, low, high, 100)
    assert verdict(claim, neutral + sign * size, found).partition(":")[0] == said


# --- power ---


def test_power_as_in_the_textbook() -> None:
    # Cohen (1988): d = 0.5, two-sided 0.05, power 0.80; (1.95996 + 0.84162)² / 0.25 = 31.4
    assert questions_needed(1.0, 0.5) == questions_needed(1.0, -0.5) == 32
    assert questions_needed(1.0, 0.2, power=0.9) == 263  # (1.95996 + 1.28155)² / 0.04 = 262.7
    assert questions_needed(0.7, 0.0) is visible_difference(0.7, 0) is None
    assert questions_needed(0.0, 0.1) == 1


def test_many_questions_are_not_resampled_and_come_to_the_same() -> None:
    draw = np.random.default_rng(1)
    values = draw.exponential(1, MANY + 1)
    [own] = mean_interval([values])
    half = 1.96 * values.std(ddof=1) / math.sqrt(MANY + 1)
    assert own.low == pytest.approx(values.mean() - half, abs=0.05 * half)
    assert own.high == pytest.approx(values.mean() + half, abs=0.05 * half)
    [found] = paired_bootstrap(np.zeros(MANY + 1), [values - values.mean()])
    assert found.p == pytest.approx(1, abs=0.01)
