"""Plots of methods side by side, told in words: quality by budget and threshold, speed, steps' seconds, rewards."""

import re
from dataclasses import replace
from typing import Any

from tests.support.reports import RIVALS, costs, one, report, rivals, summaries
from vitalfew.tasks.reports.contents import MethodResult
from vitalfew.tasks.reports.plots.cost import latency_split
from vitalfew.tasks.reports.plots.learning import learning_plot
from vitalfew.tasks.reports.plots.list import drawn
from vitalfew.tasks.reports.plots.quality import decoding_speed, quality_by_budget
from vitalfew.tasks.reports.plots.sweeps import by_threshold


def sparse(name: str, threshold: float | None, kept: float, **more: Any) -> MethodResult:
    seconds = {"init_seconds": 0.25, "prefill_seconds": 2.5, "copy_seconds": 0.125, "decode_seconds": 1.5}
    values = {"f1": 0.5 - kept / 100, "kept": kept, "decoding_speed": 20 - kept, **seconds, **more}
    return MethodResult(name, {"generate.threshold": threshold, "generate.attention": "block"}, summaries(**values))


def test_a_line_for_each_way_to_pass_on_less_has_its_name_beside_it_once() -> None:
    plot = quality_by_budget(rivals())
    assert plot is not None
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg)
    assert sorted(each for each in texts if each in RIVALS) == sorted(RIVALS)
    assert {"60", "120", "240", "480"} <= {*texts}
    assert f"{len(RIVALS)} methods. On the front: ParetoRAG 0.5" in plot.svg
    assert quality_by_budget(rivals(RIVALS[:1])) is None


def test_of_sparse_rag_quality_contexts_and_speed_are_drawn_by_threshold() -> None:
    methods = (sparse(f"threshold {number / 10}", number / 10, 8.0 - number) for number in (1, 3, 2))
    sweep = report(sparse("PCW", None, 10.0), *methods)
    plot, speed = by_threshold(sweep), decoding_speed(sweep)
    assert plot is not None
    assert speed is not None
    assert "F1: 0.430 at 0.1, 0.440 at 0.2, 0.450 at 0.3." in plot.svg
    assert "K: 7.0 at 0.1, 6.0 at 0.2, 5.0 at 0.3." in plot.svg
    assert "PCW: 10" in speed.svg
    assert plot in drawn(sweep)
    assert by_threshold(one()) is decoding_speed(one()) is None


def test_seconds_are_told_by_step_with_those_of_a_refiner_that_computes() -> None:
    idle = replace(sparse("RAG", None, 10.0), costs=costs())
    busy = replace(idle, name="CRAG", costs=tuple(replace(cost, tokens=5) for cost in costs()))
    plot = latency_split(report(idle, busy, sparse("sweep", 0.1, 3.0, prefill_seconds=None)))
    assert plot is not None
    assert "RAG: init 0.25 s, prefill 2.5 s, copy 0.125 s, decoding 1.5 s; CRAG:" in plot.svg
    assert "refiner's model 0.0004 s" in plot.svg.replace("&#x27;", "'")
    assert "1 of 3 methods are not drawn: a step is not reported" in plot.caption


def test_reward_and_kl_of_a_training_are_drawn_and_told() -> None:
    plot = learning_plot([{"step": n, "losses": [("reward", n / 20), ("kl", 0.01 * n)]} for n in range(1, 21)])
    assert plot is not None
    assert "mean reward per step: 0.050 at the start, 1.000 at the end; KL per text (nats): 0.010 at the start" in plot
    assert learning_plot([{"step": 1, "losses": [("loss", 0.5)]}]) is None
