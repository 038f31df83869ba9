"""The plots of Sparse RAG: by threshold, decoding speed by contexts, and where the seconds go."""

from dataclasses import replace
from typing import Any

from tests.support.reports import costs, one, report, summaries
from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.plots.cost import latency_split
from vitalfew.tasks.reports.plots.list import drawn
from vitalfew.tasks.reports.plots.quality import decoding_speed
from vitalfew.tasks.reports.plots.sweeps import by_threshold


def sparse(name: str, threshold: float | None, kept: float, **more: Any) -> MethodResult:
    seconds = {"init_seconds": 0.25, "prefill_seconds": 2.5, "copy_seconds": 0.125, "decode_seconds": 1.5}
    values = {"f1": 0.5 - kept / 100, "kept": kept, "decoding_speed": 20 - kept, **seconds, **more}
    return MethodResult(name, {"generate.threshold": threshold, "generate.attention": "block"}, summaries(**values))


def sweep() -> Report:
    methods = (sparse(f"threshold {number / 10}", number / 10, 8.0 - number) for number in (1, 3, 2))
    return report(sparse("PCW", None, 10.0), *methods)


def test_quality_and_contexts_are_lines_over_the_threshold() -> None:
    plot = by_threshold(sweep())
    assert plot is not None
    assert "F1: 0.430 at 0.1, 0.440 at 0.2, 0.450 at 0.3." in plot.svg
    assert "K: 7.0 at 0.1, 6.0 at 0.2, 5.0 at 0.3." in plot.svg
    assert plot in drawn(sweep())
    assert by_threshold(report(sparse("a", 0.1, 3.0), sparse("b", None, 3.0))) is None


def test_each_family_of_thresholds_has_a_line() -> None:
    full = [replace(each, settings=each.settings | {"generate.attention": "full"}) for each in sweep().methods]
    plot = by_threshold(report(*sweep().methods, *full))
    assert plot is not None
    assert "attention=block" in plot.svg
    assert "attention=full" in plot.svg


def test_speed_is_a_point_for_each_method_that_has_both() -> None:
    plot = decoding_speed(report(*sweep().methods, MethodResult("silent", {}, summaries(f1=0.5))))
    assert plot is not None
    assert "PCW: 10" in plot.svg
    assert "silent" not in plot.svg
    assert decoding_speed(one()) is None


def test_seconds_are_told_by_step_with_those_of_a_refiner_that_computes() -> None:
    idle = replace(sparse("RAG", None, 10.0), costs=costs())
    busy = replace(idle, name="CRAG", costs=tuple(replace(cost, tokens=5) for cost in costs()))
    remembered = sparse("sweep", 0.1, 3.0, prefill_seconds=None)
    plot = latency_split(report(idle, busy, remembered))
    assert plot is not None
    assert "RAG: init 0.25 s, prefill 2.5 s, copy 0.125 s, decoding 1.5 s; CRAG:" in plot.svg
    assert "refiner's model 0.0004 s" in plot.svg.replace("&#x27;", "'")
    assert "1 of 3 methods are not drawn: a step is not reported" in plot.caption
    assert latency_split(one()) is None
