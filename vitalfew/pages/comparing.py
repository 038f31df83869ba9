"""A view of the page Results: two evaluations, or two methods of one, on the questions that both asked."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from nicegui import ui

from vitalfew.library.explorer import Comparison
from vitalfew.pages import parts
from vitalfew.pages.addresses import changed, going, results
from vitalfew.pages.questions import flat, question_table
from vitalfew.pages.site import Site
from vitalfew.tasks.reports.shown.columns import figure, signed
from vitalfew.tasks.reports.shown.text import one_line


def draw(site: Site, wanted: Mapping[str, str]) -> None:
    parts.trail([("All evaluations", results())])
    parts.later(lambda: site.comparison(wanted["run"], wanted["other"]), lambda found: _draw(found, wanted))


def _draw(found: Comparison, wanted: Mapping[str, str]) -> None:
    given = wanted.get("pair", "")
    place = int(given) if given.isdecimal() and int(given) < len(found.sides) else 0
    one, other = found.labels[place]
    parts.heading(f"{other} compared with {one}")
    for letter, side in zip("AB", found.sides[place], strict=True):
        with ui.element("div").classes("row"):
            parts.Words(f"{letter}: {one_line(side.group.name)}, evaluation {one_line(side.run.name)}").classes("text")
            parts.link(f"run {side.run.run_id}", results(run=side.run.run_id))
    if len(found.sides) > 1:
        names = {str(number): " and ".join(names) for number, names in enumerate(found.labels)}
        with ui.element("div").classes("row"):
            parts.choice("Methods", names, str(place), lambda value: going(**changed(wanted, pair=value)))
    parts.hint(
        "On the questions that both asked. A difference is B minus A; its interval holds the true one in 95 of 100 "
        "samples, and p is corrected for the number of comparisons (Holm)."
    )
    parts.later(lambda: found.differences.filter(pair=place), _draw_differences, "Computing every interval")
    _changed(found, place, wanted)


def _draw_differences(mine: pl.DataFrame) -> None:
    _differences(mine.filter(detail=False), "Differences")
    if mine["detail"].any():
        parts.folded("Metrics in detail", lambda: _differences(mine.filter(detail=True), "Differences in detail"))
    parts.downloads("differences", lambda: mine)


def _differences(rows: pl.DataFrame, label: str) -> None:
    def p(value: float | None) -> str:
        return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"

    columns = [
        parts.Shown("heading", "metric"),
        parts.Shown("unit", "unit"),
        parts.Shown("value", "A", figure, True),
        parts.Shown("other_value", "B", figure, True),
        parts.Shown("difference", "B minus A", signed, True),
        parts.Shown("low", "from (95 % interval)", signed, True),
        parts.Shown("high", "to", signed, True),
        parts.Shown("p_holm", "p (Holm)", p, True),
        parts.Shown("questions", "questions", parts.figure(), True),
        parts.Shown("higher", "questions with B higher", parts.figure(), True),
        parts.Shown("lower", "questions with B lower", parts.figure(), True),
    ]
    parts.frame_table(label, columns, rows, nothing="Both have no metric in common.")


def _changed(found: Comparison, place: int, wanted: Mapping[str, str]) -> None:
    """The questions on which the two differ by a metric."""
    metrics = found.metrics(place)
    if not metrics:
        return
    given = wanted.get("metric", "")
    metric = given if given in metrics else found.primary or next(iter(metrics))
    names = {name: column.heading for name, column in metrics.items()}
    parts.heading("Questions that changed")
    with ui.element("div").classes("row"):
        parts.choice("By", names, metric, lambda value: going(**changed(wanted, metric=value)))
    fitting = found.questions(place, metric)
    sides = fitting.sides

    same = sides[0].run.run_id == sides[1].run.run_id

    def to_question(row: Mapping[str, Any]) -> str:
        return results(
            run=sides[0].run.run_id, question=row["question_id"], method=sides[0].name,
            other=sides[1].name if same else None, metric=metric,
        )  # fmt: skip

    question_table(fitting, to_question, metrics[metric].unit, "" if same else sides[1].run.run_id)
    parts.downloads("changed-questions", lambda: flat(fitting.pl()))
