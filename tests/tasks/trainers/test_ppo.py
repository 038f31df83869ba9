"""PPO and equation 2 against brute force, and the sign of equation 4."""

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.tasks.trainers.oreo import ppo
from vitalfew.tasks.trainers.oreo.contrastive import TIE, pairwise_loss, ranked

unit = st.floats(-1, 1, width=32)
LENIENT = settings(max_examples=40)


@LENIENT
@given(st.lists(st.tuples(unit, st.integers(0, 20)), min_size=1, max_size=6), st.sampled_from([0.0, 0.01, 0.5]))
def test_equation_2_by_brute_force(drawn: list[tuple[float, int]], margin: float) -> None:
    cosines, scores = [cosine for cosine, _ in drawn], [score / 20 for _, score in drawn]
    ranks = ranked(scores)
    expected = 0.0
    for one, other in combinations(range(len(drawn)), 2):
        better, worse = (one, other) if scores[one] > scores[other] else (other, one)
        if scores[better] - scores[worse] > TIE:
            expected += max(0.0, cosines[worse] - cosines[better] + margin * (ranks[worse] - ranks[better]))
    assert pairwise_loss(torch.tensor(cosines), scores, margin).item() == pytest.approx(expected, abs=1e-4)
    assert sorted(ranks) == list(range(1, len(drawn) + 1))


@LENIENT
@given(st.lists(st.tuples(unit, unit), min_size=1, max_size=6), st.integers(0, 3), unit, unit)
def test_advantages_by_brute_force(steps: list[tuple[float, float]], padding: int, gamma: float, lam: float) -> None:
    gamma, lam = abs(gamma), abs(lam)
    length = len(steps)
    reward = torch.tensor([[r for r, _ in steps] + [9.0] * padding])
    value = torch.tensor([[v for _, v in steps] + [9.0] * padding])
    mask = torch.tensor([[True] * length + [False] * padding])
    found, returns = ppo.advantages(reward, value, mask, gamma, lam)
    for step in range(length):
        expected = 0.0
        for later in range(step, length):
            following = steps[later + 1][1] if later + 1 < length else 0.0
            expected += (gamma * lam) ** (later - step) * (steps[later][0] + gamma * following - steps[later][1])
        assert found[0, step].item() == pytest.approx(expected, abs=1e-4)
        assert returns[0, step].item() == pytest.approx(expected + steps[step][1], abs=1e-4)
    assert not found[0, length:].any()


@pytest.mark.parametrize("kind", ["softmax", "terminal"])
def test_the_reward_of_a_text_is_spread_over_its_steps(kind: ppo.Weighting) -> None:
    logprobs = torch.tensor([[-0.1, -2.0, -0.5], [-1.0, -3.0, 0.0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    given_rouge, ended, kl = torch.tensor([0.8, 0.6]), torch.tensor([1.0, 0.0]), torch.full((2, 3), 0.5)
    found = ppo.rewards(given_rouge, ended, logprobs, kl.masked_fill(~mask, 0), mask, 0.1, kind)
    assert found.sum(1).tolist() == pytest.approx([0.8 - 0.15, -0.1])
    assert not found[1, 2]


def test_equation_4_punishes_a_better_answer() -> None:
    logprobs, mask, kl = torch.tensor([[-0.3, -1.0]] * 2), torch.ones(2, 2, dtype=torch.bool), torch.zeros(2, 2)
    wrong, right = ppo.rewards(torch.tensor([0.0, 1.0]), torch.ones(2), logprobs, kl, mask, 0.0, "eq4").sum(1).tolist()
    assert right < wrong == 0.0
    for kind in ("softmax", "terminal"):
        worse, better = ppo.rewards(torch.tensor([0.0, 1.0]), torch.ones(2), logprobs, kl, mask, 0.0, kind).sum(1)
        assert better > worse


def test_a_ratio_beyond_the_bounds_gives_no_gradient() -> None:
    logprobs = torch.tensor([[0.5, -0.5, 0.0]], requires_grad=True)
    old, ones = torch.zeros(1, 3), torch.ones(1, 3, dtype=torch.bool)
    found = ppo.losses(logprobs, old, torch.tensor([[1.0, -1.0, 1.0]]), old, old + 2, ones, 0.2)
    assert found.value == 4.0
    found.policy.backward()
    assert logprobs.grad is not None
    assert logprobs.grad[0, :2].tolist() == [0.0, 0.0]
    assert logprobs.grad[0, 2] < 0
    assert found.clipped == pytest.approx(2 / 3)
