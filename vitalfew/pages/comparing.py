"""A view of the page Results: two evaluations, or two methods of one, on the questions that both asked."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from nicegui import ui

from vitalfew.library.explorer import Comparison, Explorer
from vitalfew.pages import parts
from vitalfew.pages.addresses import changed, going, results
from vitalfew.pages.questions import flat, question_table
from vitalfew.pages.site import Site
from vitalfew.tasks.reports.shown.columns import signed
from vitalfew.tasks.reports.shown.text import one_line


def draw(site: Site, wanted: Mapping[str, str]) -> None:
    runs = {wanted[name].partition(":")[0] for name in ("run", "other")}
    above = [("The evaluation", results(run=next(iter(runs))))] if len(runs) == 1 else []
    parts.trail([("All evaluations", results()), *above])
    parts.later(lambda: _chosen(site, wanted), lambda chosen: _draw(*chosen, wanted))


def _chosen(site: Site, wanted: Mapping[str, str]) -> tuple[Comparison, list[tuple[Explorer, str]]]:
    """Two evaluations with a method of each: those that the address names (RUN:METHOD); without names, the first that
    both have, else the baselines; of one evaluation, its baseline and another. Raises NoReport."""
    (run, _, method), (other, _, other_method) = (wanted[name].partition(":") for name in ("run", "other"))
    a, b = site.explorer(run), site.explorer(other)
    if a.run.run_id == b.run.run_id:
        method = method or a.baseline
        other_method = other_method or next((name for name in b.methods if name != method), "")
    else:
        both = next((name for name in a.methods if name in b.methods), "")
        method, other_method = method or other_method or both, other_method or method or both
    names = method or a.baseline, other_method or b.baseline
    found = site.comparison(f"{a.run.run_id}:{names[0]}", f"{b.run.run_id}:{names[1]}")
    return found, list(zip((a, b), names, strict=True))


def _draw(found: Comparison, chosen: list[tuple[Explorer, str]], wanted: Mapping[str, str]) -> None:
    ((one, other),) = found.labels
    parts.heading(f"{other} compared with {one}")
    for letter, name, (side, method) in zip("AB", ("run", "other"), chosen, strict=True):
        _pick(letter, name, side, method, wanted)
    metrics = found.metrics()
    primary = f", but that of {metrics[found.primary].heading}, which A's evaluation is about" if found.primary else ""
    parts.hint(
        "On the questions that both asked. A difference is B minus A; its interval holds the true one in 95 of 100 "
        f"samples. p is corrected for the number of metrics (Holm){primary}."
    )
    parts.later(lambda: found.differences, _draw_differences, "Computing every interval")
    _changed(found, wanted)


def _pick(letter: str, name: str, side: Explorer, method: str, wanted: Mapping[str, str]) -> None:
    """Choose the method of a side."""
    methods = {own: one_line(own) for own in side.methods}

    def go(value: str) -> None:
        going(**changed(wanted, **{name: f"{side.run.run_id}:{value}"}))

    with ui.element("div").classes("row"):
        parts.choice(f"Method {letter}", methods, method, go)
        parts.link(f"{one_line(side.run.name)}, run {side.run.run_id}", results(run=side.run.run_id))


def _draw_differences(mine: pl.DataFrame) -> None:
    _differences(mine.filter(detail=False), "Differences")
    if mine["detail"].any():
        parts.folded("Metrics in detail", lambda: _differences(mine.filter(detail=True), "Differences in detail"))
    parts.downloads("differences", lambda: mine)


def _differences(rows: pl.DataFrame, label: str) -> None:
    columns = [
        *parts.texts(heading="metric", unit="unit"),
        *parts.in_units(value="A", other_value="B"),
        *parts.numbers(signed, difference="B minus A", low="from (95 % interval)", high="to"),
        *parts.numbers(parts.p_value, p_holm="p (Holm)"),
        *parts.numbers(parts.figure(), questions="questions"),
        *parts.numbers(parts.figure(), higher="questions with B higher", lower="questions with B lower"),
    ]
    parts.frame_table(label, columns, rows, nothing="Both have no metric in common.")


def _changed(found: Comparison, wanted: Mapping[str, str]) -> None:
    """The questions on which the two differ by a metric."""
    metrics = found.metrics()
    if not metrics:
        return
    given = wanted.get("metric", "")
    metric = given if given in metrics else found.primary or next(iter(metrics))
    names = {name: column.heading for name, column in metrics.items()}
    parts.heading("Questions that changed")
    with ui.element("div").classes("row"):
        parts.choice("By", names, metric, lambda value: going(**changed(wanted, metric=value)))
    fitting = found.questions(metric=metric)
    sides = fitting.sides
    same = sides[0].run.run_id == sides[1].run.run_id

    def to_question(row: Mapping[str, Any]) -> str:
        return results(
            run=sides[0].run.run_id, question=row["question_id"], method=sides[0].name,
            other=sides[1].name if same else None, metric=metric,
        )  # fmt: skip

    nothing = "No question that both asked has another value."
    question_table(fitting, to_question, metrics[metric].unit, "" if same else sides[1].run.run_id, nothing)
    parts.downloads("changed-questions", lambda: flat(fitting.pl()))
