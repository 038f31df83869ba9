"""Views of the page Results: the questions of an evaluation by who is right, and two evaluations compared."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from nicegui import ui

from vitalfew.library.explored import RIGHT, QuestionFilter
from vitalfew.library.explorer import Comparison, Explorer
from vitalfew.pages import parts
from vitalfew.pages.addresses import go, results
from vitalfew.pages.site import Site
from vitalfew.tasks.reports.shown.columns import figure, signed
from vitalfew.tasks.reports.shown.text import one_line, shortened

CELLS = {"both": (True, True), "one": (True, False), "other": (False, True), "neither": (False, False)}
"""By the parameter `cell`: whether the first and the second method are right."""


def above(run: str = "", *links: tuple[str, str]) -> None:
    """Links to the views between the list and this one: an evaluation if it is of one, and others."""
    one = [("The evaluation", results(run=run))] if run else []
    with ui.element("nav").props('aria-label="Views above"').classes("row"):
        for text, address in (*one, *links):
            parts.link(f"← {text}", address)


def pair(explorer: Explorer, wanted: Mapping[str, str]) -> tuple[str, str]:
    """The two methods of the address: the baseline, and the first other one, where it names none."""
    names = [*explorer.methods]
    one = wanted.get("method") or explorer.baseline
    return one, wanted.get("other") or next((name for name in names if name != one), "")


def judging_metric(explorer: Explorer, wanted: Mapping[str, str]) -> str:
    """The metric of the address if it says who is right, else the primary one or the first; "" where none does."""
    judging = explorer.judging()
    fallback = explorer.primary if explorer.primary in judging else next(iter(judging), "")
    named = wanted.get("metric", "")
    return named if named in explorer.judging(detail=True) else fallback or ""


def filtered(explorer: Explorer, wanted: Mapping[str, str]) -> QuestionFilter:
    """The questions that fit the address."""
    one, other = pair(explorer, wanted)
    right, other_right = CELLS.get(wanted.get("cell", ""), (None, None))
    return explorer.questions(
        one, other, metric=judging_metric(explorer, wanted), right=right, other_right=other_right if other else None,
        source=wanted.get("source", ""), containing=wanted.get("text", ""),
    )  # fmt: skip


def draw_explorer(explorer: Explorer, wanted: Mapping[str, str]) -> None:
    """Choose two methods and a metric, and see on how many questions which of them is right; a click lists them."""
    parts.heading("Questions: who is right, and who is not")
    if not judging_metric(explorer, wanted):
        parts.hint("No metric of this evaluation scores single answers.")
        return
    base = {**wanted, "run": explorer.run.run_id, "view": "questions", "question": ""}
    is_listed = "view" in wanted
    _controls(explorer, base, is_listed)

    def draw(found: tuple[pl.DataFrame, list[str]]) -> None:
        cells, sources = found
        _draw_cells(base, cells, is_listed)
        if len(sources) > 1:
            names = {"": "all"} | {source: one_line(source) for source in sources}
            parts.pick("Data set", "source", names, base.get("source", ""), "/results", base)

    parts.later(lambda: (filtered(explorer, base).cells(), explorer.sources()), draw, "Counting")


def _controls(explorer: Explorer, base: Mapping[str, str], is_listed: bool) -> None:
    one, other = pair(explorer, base)
    names = {name: one_line(name) for name in explorer.methods}
    metrics, metric = explorer.judging() | explorer.judging(detail=True), judging_metric(explorer, base)
    chosen = {**base, "method": one, "other": other, "metric": metric}
    with parts.row():
        parts.pick("Method A", "method", names, one, "/results", chosen)
        parts.pick("Method B", "other", names, other, "/results", chosen)
        parts.pick("Metric that says who is right", "metric", metrics, metric, "/results", chosen)
        search = "Words in the question, then Enter"
        parts.field(search, "search", base.get("text", ""), lambda text: go("/results", chosen, text=text), "change")
    heading = explorer.metrics[metric].heading
    defined = definition(explorer, metric) if is_listed else ""  # else it is above
    parts.hint(f"Right: {heading} is at least {RIGHT:g}, on a scale from 0 to 1. {defined}")
    run = explorer.run.run_id
    both = results(run=f"{run}:{one}", other=f"{run}:{other}")
    parts.link("All metrics of A and B, with the interval of their difference", both)


def definition(explorer: Explorer, metric: str) -> str:
    """A sentence that says how a metric is defined, if one does."""
    about, heading = explorer.meaning(metric).replace("`", ""), explorer.metrics[metric].heading
    return f"{heading[:1].upper()}{heading[1:]}: {about}" if about else ""


def _draw_cells(base: Mapping[str, str], cells: pl.DataFrame, is_listed: bool) -> None:
    counted = {(left, right): count for left, right, count in cells.rows()}
    unknown = sum(count for (left, right), count in counted.items() if left is None or right is None)
    texts = {"one": "only A right", "other": "only B right", "both": "both right", "neither": "both wrong"}
    with ui.element("nav").props('aria-label="Questions by who is right"').classes("cells"):
        for cell, text in {**texts, "": "all"}.items():
            count = counted.get(CELLS[cell], 0) if cell else cells["questions"].sum()
            made = parts.Words(f"{text}: {count:,}", "a").classes("text")
            made.props["href"] = results(base, cell=cell)
            if is_listed and base.get("cell", "") == cell:
                made.props["aria-current"] = "true"
    if unknown:
        parts.hint(f"{unknown:,} questions lack a value of one of the two methods; only “all” lists them.")


def draw_list(site: Site, wanted: Mapping[str, str]) -> None:
    """The questions that fit the address."""
    above(wanted["run"])

    def draw(explorer: Explorer) -> None:
        draw_explorer(explorer, wanted)
        if not judging_metric(explorer, wanted):
            return
        fitting = filtered(explorer, wanted)

        unit = explorer.metrics[fitting.metric].unit
        question_table(fitting, lambda row: results(wanted, question=row["question_id"]), unit)
        parts.downloads(f"{explorer.run.run_id}-questions", lambda: flat(fitting.pl()))

    parts.later(lambda: explored(site, wanted["run"]), draw)


def explored(site: Site, run: str) -> Explorer:
    """An evaluation whose metrics are read. Raises NoReport."""
    explorer = site.explorer(run)
    _ = explorer.metrics
    return explorer


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Questions for a file: gold answers in one text."""
    return frame.with_columns(pl.col("gold_answers").list.join(" | "))


def question_table(
    fitting: QuestionFilter,
    link: Any,
    unit: str,
    second: str = "",
    nothing: str = "No question fits: choose another kind above, or other words.",
) -> None:
    """A page at a time of the questions, both answers and both values. `second`: the run of B where it is another."""
    names = [shortened(one_line(side.name), 30) for side in fitting.sides]
    columns = [
        parts.Shown("question", "question", parts.cut, link=link),
        parts.Shown("gold_answers", "gold answers", lambda texts: parts.cut(" | ".join(texts)), sortable=False),
        parts.Shown("answer", f"answer of A: {names[0]}", parts.cut, sortable=False),
        parts.Shown("value", f"A ({unit})", lambda value: figure(value, unit), True),
    ]
    if len(names) > 1:
        columns += [
            parts.Shown("other_answer", f"answer of B: {names[1]}", parts.cut, sortable=False),
            parts.Shown("other_value", f"B ({unit})", lambda value: figure(value, unit), True),
        ]
    if second:
        base = {"run": second, "method": fitting.sides[1].name}

        def to_second(row: Mapping[str, Any]) -> str:
            return results(base, question=row["question_id"])

        columns.append(parts.Shown("source", "in the run of B", lambda _: "open", link=to_second, sortable=False))

    def read(wanted: parts.Slice) -> tuple[parts.Rows, int]:
        order, down = (wanted.order, wanted.descending) if wanted.order else ("difference", True)
        return fitting.pl(order, down, wanted.limit, wanted.offset).to_dicts(), len(fitting)

    parts.table("Questions", columns, read, nothing=nothing)


def draw_comparison(site: Site, wanted: Mapping[str, str]) -> None:
    """Two evaluations, or two methods of one, on the questions that both asked."""
    runs = {wanted[name].partition(":")[0] for name in ("run", "other")}
    above(next(iter(runs)) if len(runs) == 1 else "")
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
    parts.retitle(f"{other} compared with {one}")
    for letter, name, (side, method) in zip("AB", ("run", "other"), chosen, strict=True):
        run, methods = side.run.run_id, {f"{side.run.run_id}:{own}": one_line(own) for own in side.methods}
        with parts.row():
            parts.pick(f"Method {letter}", name, methods, f"{run}:{method}", "/results", wanted)
            parts.link(f"{one_line(side.run.name)}, run {run}", results(run=run))
    metrics = found.metrics()
    primary = f", except that of {metrics[found.primary].heading}, the primary metric of A" if found.primary else ""
    parts.hint(
        "On the questions that both asked. A difference is B minus A; its interval holds the true one in 95 of 100 "
        f"samples. p is corrected for the number of metrics (Holm){primary}."
    )
    parts.later(lambda: found.differences, _draw_differences, "Computing every interval")
    _changed(found, wanted)


def _draw_differences(mine: pl.DataFrame) -> None:
    _differences(mine.filter(detail=False), "Differences")
    if mine["detail"].any():
        parts.folded("Metrics in detail", lambda: _differences(mine.filter(detail=True), "Differences in detail"))
    parts.downloads("differences", lambda: mine)


def _differences(rows: pl.DataFrame, label: str) -> None:
    columns = [
        *parts.texts(heading="metric", unit="unit"),
        parts.Shown("value", "A", number=True, unit="unit"),
        parts.Shown("other_value", "B", number=True, unit="unit"),
        *parts.numbers(signed, difference="B minus A", low="from (95 % interval)", high="to"),
        *parts.numbers(parts.p_value, p_holm="p (Holm)"),
        *parts.numbers(parts.figure(), questions="questions"),
        *parts.numbers(parts.figure(), higher="questions with B higher", lower="questions with B lower"),
    ]
    parts.table(label, columns, rows, nothing="They have no metric in common.")


def _changed(found: Comparison, wanted: Mapping[str, str]) -> None:
    """The questions on which the two differ by a metric."""
    metrics = found.metrics()
    if not metrics:
        return
    given = wanted.get("metric", "")
    metric = given if given in metrics else found.primary or next(iter(metrics))
    names = {name: column.heading for name, column in metrics.items()}
    parts.heading("Questions that changed")
    with parts.row():
        parts.pick("By", "metric", names, metric, "/results", wanted)
    fitting = found.questions(metric=metric)
    sides = fitting.sides
    same = sides[0].run.run_id == sides[1].run.run_id
    base = {
        "run": sides[0].run.run_id,
        "method": sides[0].name,
        "other": sides[1].name if same else "",
        "metric": metric,
    }
    nothing, second = "No common question changed its value.", "" if same else sides[1].run.run_id
    question_table(
        fitting, lambda row: results(base, question=row["question_id"]), metrics[metric].unit, second, nothing
    )
    parts.downloads("changed-questions", lambda: flat(fitting.pl()))
