"""The plot of rewards: of a training that has some, the same bytes each time."""

from typing import Any

import pytest

from vitalfew.tasks.reports.plots.learning import learning_plot, smoothed


def steps(count: int, **more: float) -> list[dict[str, Any]]:
    losses = {n: [("reward", n / count), ("kl", 0.01 * n), *more.items()] for n in range(1, count + 1)}
    return [{"step": step, "losses": own} for step, own in losses.items()]


def test_reward_and_kl_are_drawn_and_told() -> None:
    plot = learning_plot(steps(20, policy=0.5))
    assert plot is not None
    assert plot.startswith("<svg")
    assert "mean reward per step: 0.050 at the start, 1.000 at the end; KL per text (nats): 0.010 at the start" in plot
    assert plot == learning_plot(steps(20, policy=0.5))


def test_a_training_without_rewards_has_no_plot() -> None:
    assert learning_plot([]) is None
    assert learning_plot([{"step": 1, "losses": [("loss", 0.5)]}]) is None


def test_the_line_is_a_mean_of_neighbours() -> None:
    assert smoothed([1, 2, 3, 6], 2) == pytest.approx([1.5, 2.5, 4.5])
    assert smoothed([1, 2], 1) == [1, 2]
