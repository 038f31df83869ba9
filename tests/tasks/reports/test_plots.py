"""Plots, told in words: quality by budget and threshold, rows of a forest, rewards of a training."""

import re

import pytest

from tests.support.reports import RIVALS, rivals
from vitalfew.tasks.reports.plots.drawing import standing_alone
from vitalfew.tasks.reports.plots.forest import ForestRow, Kind, forest
from vitalfew.tasks.reports.plots.learning import learning_plot
from vitalfew.tasks.reports.plots.quality import quality_by_budget

pytestmark = pytest.mark.usefixtures("plots")


def test_a_line_for_each_way_to_pass_on_less_has_its_name_once() -> None:
    plot = quality_by_budget(rivals())
    assert plot is not None
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg)
    assert sorted(each for each in texts if each in RIVALS) == sorted(RIVALS)
    assert {"60", "120", "240", "480"} <= {*texts}
    assert f"{len(RIVALS)} methods. On the front: ParetoRAG 0.5" in plot.svg
    assert quality_by_budget(rivals(RIVALS[:1])) is None


def test_a_forest_tells_every_row_and_names_the_kinds_that_it_has() -> None:
    rows = [
        ForestRow("NQ", -0.0333, -0.0667, 0.0, 150),
        ForestRow("Celery", 0.12, 0.004, 0.18, 1_200, "hollow"),
    ]
    legend: dict[Kind, str] = {"filled": "bundled reader", "hollow": "language model", "grey": "too few questions"}
    plot = forest(rows, "Spans", "accuracy minus whole passages", "Mean and 95 % interval.", legend)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg)
    assert {"NQ", "Celery", "−0.03 (−0.07 to +0.00), n = 150"} <= {*texts}
    assert "+0.120 (+0.004 to +0.180), n = 1,200" in texts
    assert {"bundled reader", "language model"} <= {*texts}
    assert "too few questions" not in texts
    dark = standing_alone(plot.svg, "white", "#0d1117")
    assert 'fill="#0d1117"' in dark
    assert "currentColor" not in dark


def test_reward_and_kl_of_a_training_are_drawn_and_told() -> None:
    plot = learning_plot([{"step": n, "losses": [("reward", n / 20), ("kl", 0.01 * n)]} for n in range(1, 21)])
    assert plot is not None
    assert "mean reward per step: 0.050 at the start, 1.000 at the end; KL per text (nats): 0.010 at the start" in plot
    assert learning_plot([{"step": 1, "losses": [("loss", 0.5)]}]) is None
