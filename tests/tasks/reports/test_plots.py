"""Plots, told in words: quality by budget and threshold, rows of a forest, rewards of a training."""

import re
from dataclasses import replace

import pytest

from tests.support.reports import RIVALS, report, rivals, summaries
from vitalfew.tasks.reports.contents import MethodResult
from vitalfew.tasks.reports.plots.drawing import standing_alone
from vitalfew.tasks.reports.plots.forest import differences
from vitalfew.tasks.reports.plots.learning import learning_plot
from vitalfew.tasks.reports.plots.quality import quality_by_budget
from vitalfew.tasks.reports.statistics.paired import Difference

pytestmark = pytest.mark.usefixtures("plots")


def test_a_line_for_each_way_to_pass_on_less_has_its_name_once() -> None:
    plot = quality_by_budget(rivals())
    assert plot is not None
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg)
    assert sorted(each for each in texts if each in RIVALS) == sorted(RIVALS)
    assert {"60", "120", "240", "480"} <= {*texts}
    assert f"{len(RIVALS)} methods. On the front: ParetoRAG 0.5" in plot.svg
    assert quality_by_budget(rivals(RIVALS[:1])) is None


def test_a_forest_tells_every_row_and_its_figures() -> None:
    naive, better, alike = (MethodResult(name, {}, summaries(accuracy=0.5)) for name in ("naive RAG", "NQ", "Celery"))
    better = replace(
        better, differences={"accuracy": Difference(0.12, 0.004, 0.18, 0.01, 0.4, 0.3, 1200, 9, 3, 0, 0.01)}
    )
    alike = replace(
        alike, differences={"accuracy": Difference(-0.0333, -0.0667, 0.0, 0.4, 0.4, 0.1, 150, 3, 9, 0, 0.4)}
    )
    plot = differences(report(naive, better, alike))
    assert plot is not None
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg)
    assert {"NQ", "Celery", "−0.03 (−0.07 to +0.00), n = 150", "+0.120 (+0.004 to +0.180), n = 1,200"} <= {*texts}
    assert "currentColor" not in standing_alone(plot.svg)


def test_reward_and_kl_of_a_training_are_drawn_and_told() -> None:
    plot = learning_plot([{"step": n, "losses": [("reward", n / 20), ("kl", 0.01 * n)]} for n in range(1, 21)])
    assert plot is not None
    assert "mean reward per step: 0.050 at the start, 1.000 at the end; KL per text (nats): 0.010 at the start" in plot
    assert learning_plot([{"step": 1, "losses": [("loss", 0.5)]}]) is None
