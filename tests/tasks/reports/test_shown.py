"""The report: the same figures on a terminal, as Markdown, as tables and as a page, whatever the results look like."""

import base64
import csv as builtin_csv
import io
import math
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text
from pyarrow import csv
from rich.cells import cell_len
from rich.console import Console

from tests.support import reports
from vitalfew.storage.catalog import database as catalog
from vitalfew.tasks.reports.contents import MethodResult, MetricSummary, Report, undeclared
from vitalfew.tasks.reports.families import ALPHA, families
from vitalfew.tasks.reports.plots.cost import cost_by_stage
from vitalfew.tasks.reports.plots.drawing import axes_grid, data_uri, ground, labelled
from vitalfew.tasks.reports.plots.labels import label_points
from vitalfew.tasks.reports.plots.quality import quality_by_price
from vitalfew.tasks.reports.plots.sweeps import panels, recall_by_alpha
from vitalfew.tasks.reports.shown.columns import (
    best,
    default_columns,
    figure,
    pareto_front,
    price_metric,
    quality_metric,
    significant,
)
from vitalfew.tasks.reports.shown.markdown import markdown_report
from vitalfew.tasks.reports.shown.notes import paid, warnings
from vitalfew.tasks.reports.shown.page import page, queries
from vitalfew.tasks.reports.shown.tables import LONG, arrow_table, csv_bytes, long_table, wide_table
from vitalfew.tasks.reports.shown.terminal import terminal_report

every = pytest.mark.parametrize("make", reports.ALL, ids=lambda make: make.__name__)
VOID = {"meta", "br", "hr", "img", "link", "input"}


@cache
def paged(make: Callable[[], Report]) -> str:
    return page(make())


def printed(report: Report, metric: str, value: float | None) -> str:
    """A figure as a table has it: USD are those of 1,000 questions."""
    times = 1000 if metric in ("stage_usd", "paid_usd") else 1
    return figure(value and value * times, report.column(metric).unit)


def shown(report: Report, width: int = 120, **options: list[str]) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(terminal_report(report, width, **options))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Page(HTMLParser):
    """Checks that tags nest, and keeps what the tests look at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "th"):
            self.cells.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.tags)

    def values(self, attribute: str) -> list[str]:
        return [attributes[attribute] or "" for _, attributes in self.tags if attribute in attributes]


# The front


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_the_front_is_what_nothing_dominates(points: list[tuple[int, int]]) -> None:
    def dominated(point: tuple[int, int]) -> bool:
        return any(x <= point[0] and y >= point[1] and (x, y) != point for x, y in points)

    front = pareto_front(points)
    assert {*front} == {number for number, point in enumerate(points) if not dominated(point)}
    assert [points[number] for number in front] == sorted(points[number] for number in front)


# Figures and columns


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("accuracy", 0.5, "0.500"),
        ("prompt_tokens", 1480.25, "1,480.2"),
        ("usd", 1.5e-7, "0.00000015"),
        ("usd", 0.0, "0"),
        ("seconds", 12.345, "12.3"),
        ("seconds", 99999.0, "100,000"),
        ("mauve", None, "–"),
        ("my_score", -1234.5, "-1,234.5"),
    ],
)
def test_a_figure_has_the_digits_of_its_metric(metric: str, value: float | None, text: str) -> None:
    unit = reports.COLUMNS[metric].unit if metric in reports.COLUMNS else ""
    assert figure(value, unit) == text


@given(st.floats(1e-9, 1e9))
def test_three_significant_digits_without_exponent(value: float) -> None:
    text = significant(value)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.005)


def test_default_columns_are_quality_then_retrieval_then_cost() -> None:
    recalls = ["passage_recall@1", "passage_recall@5", "passage_recall@10"]
    last = ["prompt_tokens", "contexts", "stage_seconds", "stage_usd", "paid_usd"]
    assert default_columns(reports.three()) == ["accuracy", "exact_match", "f1", *recalls, *last]


def test_the_generators_own_seconds_are_shown_by_name_alone_and_say_so() -> None:
    report = reports.three()
    assert report.column("seconds").heading == "generator seconds"
    assert report.column("stage_seconds").heading == "seconds, nothing known"
    assert "seconds" not in default_columns(report)
    assert "generator seconds" in markdown_report(report, columns=["seconds"])


def test_a_cost_that_an_experiment_is_about_is_shown_beside_that_of_all_stages() -> None:
    values = reports.summaries(total_seconds=1.0, refine_seconds=0.5)
    report = replace(reports.report(MethodResult("a", {}, values, reports.costs())), primary="total_seconds")
    assert default_columns(report)[:2] == ["total_seconds", "stage_seconds"]


def test_without_a_generator_seconds_and_usd_are_those_of_all_stages() -> None:
    report = reports.sweep()
    assert default_columns(report)[-4:] == ["contexts", "stage_seconds", "stage_usd", "paid_usd"]
    (seconds,) = {round(value or 0, 9) for value in report.values("stage_seconds")}
    assert seconds == pytest.approx((2.0 + 0.4) / 1000)


def test_without_gold_passages_the_recall_of_answers_stands_for_retrieval() -> None:
    without = reports.summaries(f1=0.4, recall_5=None) | reports.summaries(**{"answer_recall@5": 0.7})
    assert default_columns(reports.report(MethodResult("a", {}, without))) == ["f1", "answer_recall@5"]
    both = reports.summaries(f1=0.4, recall_5=0.6) | reports.summaries(**{"answer_recall@5": 0.7})
    assert default_columns(reports.report(MethodResult("a", {}, both))) == ["f1", "passage_recall@5"]


def test_a_metric_of_ones_own_is_a_column() -> None:
    report = reports.report(MethodResult("a", {}, reports.summaries(faithfulness=0.5, f1=0.4)))
    assert default_columns(report) == ["f1", "faithfulness"]


def test_quality_is_the_first_that_was_scored_and_price_the_tokens_that_are_read() -> None:
    assert (quality_metric(reports.three()), price_metric(reports.three())) == ("accuracy", "prompt_tokens")
    assert (quality_metric(reports.sweep()), price_metric(reports.sweep())) == ("passage_recall@10", "contexts")
    refined = reports.summaries(f1=0.4, seconds=1.0, contexts=2.0, context_tokens=52.0)
    assert price_metric(reports.report(MethodResult("a", {}, refined))) == "context_tokens"
    prompted = refined | reports.summaries(prompt_tokens=80.0)
    assert price_metric(reports.report(MethodResult("a", {}, prompted))) == "prompt_tokens"
    own = reports.report(MethodResult("a", {}, reports.summaries(completion_tokens=3.0, faithfulness=0.5, f1=0.4)))
    assert (quality_metric(own), price_metric(own)) == ("f1", "completion_tokens")
    assert quality_metric(reports.nothing_scored()) is price_metric(reports.nothing_scored()) is None


def test_what_declares_no_direction_has_no_best() -> None:
    summaries = [{"f1": MetricSummary(undeclared("f1"), value, 3)} for value in (0.2, 0.4)]
    report = reports.report(*(MethodResult(str(n), {}, each) for n, each in enumerate(summaries)))
    assert best(report, "f1") == set()
    assert default_columns(report) == ["f1"]
    assert "f1" in markdown_report(report)


def test_the_best_is_the_lowest_of_a_cost_and_ties_share_it() -> None:
    figures = {"a": (1, 2), "b": (3, 1), "c": (3, 3)}
    report = reports.report(
        *(MethodResult(name, {}, reports.summaries(f1=f1, usd=usd)) for name, (f1, usd) in figures.items())
    )
    assert best(report, "f1") == {1, 2}
    assert best(report, "usd") == {1}
    assert best(reports.one(), "f1") == set()
    sizes = reports.report(*(MethodResult(str(n), {}, reports.summaries(set_size=n)) for n in (1.0, 2.0)))
    assert best(sizes, "set_size") == set()  # neither more nor fewer of them are better


def test_a_value_that_is_no_number_is_none() -> None:
    values = {"f1": float("nan"), "mauve": float("inf")}
    report = reports.report(
        MethodResult("a", {}, {name: MetricSummary(undeclared(name), value, 3) for name, value in values.items()})
    )
    assert report.values("f1") == report.values("mauve") == [None]
    assert long_table(report)["value"].null_count() == 2


# The terminal


@every
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_terminal_table_keeps_to_the_width(make: Callable[[], Report], width: int) -> None:
    text = shown(make(), width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


@pytest.mark.parametrize("width", [24, 45, 80, 120])
def test_a_narrow_terminal_shows_every_figure(width: int) -> None:
    report = reports.three()
    words = shown(report, width).split()
    for metric in default_columns(report):
        marked = best(report, metric)
        for row, value in enumerate(report.values(metric)):
            assert f"{printed(report, metric, value)}{'*' if row in marked else ''}" in words


@every
def test_usd_is_that_of_a_thousand_questions_in_every_table(make: Callable[[], Report]) -> None:
    report = make()
    for metric in {"stage_usd", "paid_usd"} & {*default_columns(report)}:
        heading = report.column(metric).heading.replace("USD", "USD per 1,000 questions")
        assert heading in markdown_report(report)
        assert heading in Page(paged(make)).cells


def test_chosen_columns_and_an_unknown_one() -> None:
    text = shown(reports.three(), columns=["f1", "stage_usd"])
    assert "F1" in text
    table = text[text.index("method") : text.index("*")]
    assert "accuracy" not in table
    with pytest.raises(ValueError, match=r"has no metric bleu; it has: accuracy, .*passage_recall@1"):
        terminal_report(reports.three(), 80, columns=["f1", "bleu"])


def test_markup_in_a_name_is_shown_as_it_is() -> None:
    assert "[bold]x[/]" in shown(reports.report(MethodResult("[bold]x[/]", {}, reports.summaries(f1=0.5))))


# Notes


def test_notes_tell_what_was_left_out_why_and_what_failed() -> None:
    told = "\n".join(warnings(reports.three()))
    assert "Not scored: passage recall@k (no retrieval): it needs hits and gold passages." in told
    assert "12 of 1,000 questions are left out of accuracy, exact match, F1 (naive top-10)" in told
    assert "naive top-10: 3 of 1,000 questions got no answer: prompt of 9,120 tokens" in told
    assert warnings(reports.one()) == []


def test_what_is_reused_was_not_paid() -> None:
    (line,) = paid(reports.report(MethodResult("a", {}, {}, reports.costs(10.0, 0.0, reused=True))))
    assert line.startswith("This run paid 0.000019 USD for 1.9 CPU s.")
    assert line.endswith("Reused and not paid again (retrieve): 0.0001 USD for 11 CPU s.")
    assert paid(reports.nothing_scored()) == []


# Tables


@every
def test_long_and_wide_tables_hold_the_same_figures(make: Callable[[], Report]) -> None:
    report = make()
    long, wide = long_table(report), wide_table(report)
    assert long.to_arrow().cast(LONG).schema == LONG
    assert wide.height == len(report.methods)
    by_method = {row["method"]: row for row in wide.to_dicts()}
    for row in long.to_dicts():
        assert by_method[row["method"]][row["metric"]] == row["value"]
        assert row["run_id"] == report.run_id
    assert wide["error_rows"].to_list() == [method.error_rows for method in report.methods]


@every
def test_tables_survive_parquet_and_csv(make: Callable[[], Report], tmp_path: Path) -> None:
    for frame in (long_table(make()), wide_table(make())):
        table = arrow_table(frame)
        pq.write_table(table, tmp_path / "table.parquet")
        assert pq.read_table(tmp_path / "table.parquet").equals(table)
        options = csv.ConvertOptions(column_types=table.schema, strings_can_be_null=True)
        parsing = csv.ParseOptions(newlines_in_values=True)
        read = csv.read_csv(io.BytesIO(csv_bytes(frame)), parse_options=parsing, convert_options=options)
        assert read.to_pylist() == table.to_pylist()


@settings(deadline=None)
@given(st.lists(st.text("=+-@\t\r\n＝1.e'a \"", max_size=4), min_size=1))
def test_no_text_of_a_table_is_a_formula_in_a_spreadsheet(texts: list[str]) -> None:
    table = pl.DataFrame({"text": pl.Series(texts, dtype=pl.String), "=number": [-1.5] * len(texts)})
    heading, *rows = builtin_csv.reader(io.StringIO(csv_bytes(table).decode(), newline=""))
    assert heading == ["text", "'=number"]
    assert [number for _, number in rows] == ["-1.5"] * len(texts)
    for (cell, _), text in zip(rows, texts, strict=True):
        assert cell in (text, f"'{text}")
        assert not cell.startswith(tuple("=+-@\t\r\n＝")) or math.isfinite(float(cell))


def test_settings_are_numbers_where_they_are_and_else_text() -> None:
    wide = wide_table(reports.strange_names())
    assert wide.schema["settings.alpha"] == pl.Float64
    assert wide["settings.flags"][0] == '[1, "</svg>"]'
    assert wide_table(reports.three())["settings.top_k"].to_list() == [None, 10, 10, 30]


# Markdown


@every
def test_markdown_is_one_table_whose_rows_have_its_columns(make: Callable[[], Report]) -> None:
    report = make()
    rows = [line for line in markdown_report(report).splitlines() if line.startswith("| ")]
    assert len(rows) == len(report.methods) + 2
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(default_columns(report)) + 2}


def test_markdown_marks_the_best_and_takes_no_markup_from_data() -> None:
    assert "| **1,302" not in (text := markdown_report(reports.three()))
    assert "| ParetoRAG top-30 | **0.547** |" in text
    assert "\\<script\\>" in (strange := markdown_report(reports.strange_names()))
    assert not re.search(r"(?<!\\)<", strange)


# The page


@every
def test_the_page_is_well_formed_and_needs_nothing_else(make: Callable[[], Report]) -> None:
    text = paged(make)
    parsed = Page(text)
    assert parsed.count("script") == parsed.count("link") == parsed.count("img") == parsed.count("iframe") == 0
    references = [*parsed.values("href"), *parsed.values("xlink:href"), *parsed.values("src")]
    assert all(reference.startswith("#") for reference in references)
    assert not re.search(r"@import|url\((?!#)", text)
    assert {*re.findall(r"https?://[\w./]+", text)} <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


@every
def test_ids_of_the_page_are_unique_and_every_reference_has_one(make: Callable[[], Report]) -> None:
    parsed = Page(paged(make))
    ids = parsed.values("id")
    assert len(ids) == len({*ids})
    wanted = {name for names in parsed.values("aria-labelledby") for name in names.split()}
    wanted |= {reference[1:] for reference in parsed.values("xlink:href")}
    every_value = " ".join(value or "" for _, attributes in parsed.tags for value in attributes.values())
    wanted |= {*re.findall(r"url\(#([^)]+)\)", every_value)}
    assert wanted <= {*ids}


@every
def test_the_page_has_a_text_for_every_plot_and_a_header_for_every_row(make: Callable[[], Report]) -> None:
    parsed = Page(paged(make))
    drawings = [attributes for tag, attributes in parsed.tags if tag == "svg"]
    assert all(attributes["role"] == "img" and attributes["aria-labelledby"] for attributes in drawings)
    assert parsed.count("desc") == parsed.count("figcaption") == len(drawings)
    assert parsed.count("caption") == parsed.count("table")
    heads = parsed.values("scope")
    assert heads.count("row") + parsed.count("thead") == parsed.count("tr")


def test_the_page_shows_data_and_does_not_obey_it() -> None:
    text = paged(reports.strange_names)
    assert Page(text).count("i") == Page(text).count("b") == 0
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &#34;quotes&#34; $x^2$" in text
    assert "\x1b" not in text


def test_the_page_has_the_figures_of_the_table() -> None:
    report = reports.three()
    cells = Page(paged(reports.three)).cells
    for metric in default_columns(report):
        marked = best(report, metric)
        for row, value in enumerate(report.values(metric)):
            assert f"{printed(report, metric, value)}{'* (best)' if row in marked else ''}" in cells


def test_the_same_report_gives_the_same_bytes_in_another_process() -> None:
    code = "from tests.support.reports import three; from vitalfew.tasks.reports.shown.page import page; "
    code += "print(page(three()), end='')"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"}
    run = [sys.executable, "-c", code]
    other = subprocess.run(run, capture_output=True, check=True, env=environment, cwd=Path(__file__).parents[3])
    assert other.stdout.decode() == paged(reports.three) == page(reports.three())


# Plots


@every
def test_plots_are_xml_and_images(make: Callable[[], Report]) -> None:
    report = make()
    for plot in (quality_by_price(report), recall_by_alpha(report), cost_by_stage(report)):
        if plot:
            assert ET.fromstring(plot.svg).tag == "{http://www.w3.org/2000/svg}svg"
            kind, _, encoded = data_uri(plot.svg).partition(",")
            assert kind == "data:image/svg+xml;base64"
            image = ET.fromstring(base64.b64decode(encoded))
            assert image[0].attrib["fill"] == "white"
            assert b"currentColor" not in ET.tostring(image)


def test_labels_of_a_plot_are_the_names() -> None:
    plot = quality_by_price(reports.strange_names())
    assert plot is not None
    texts = [element.text for element in ET.fromstring(plot.svg).iter("{http://www.w3.org/2000/svg}text")]
    assert '_underscore id="x" url(#y) #010203' in texts
    assert "ニューヨークの検索拡張生成と帕累托前沿" in texts


def test_names_that_are_shortened_to_the_same_stay_apart() -> None:
    names = [f"the same beginning {middle} and the same end of a name" for middle in ("of one", "of two")]
    report = reports.report(*(MethodResult(name, {}, {}) for name in [*names, "short"]))
    assert [labelled(report, place, 15) for place in range(3)] == ["the sam… a name", "the sam… a name (2)", "short"]


def test_what_cannot_be_drawn_is_left_out() -> None:
    empty = reports.nothing_scored()
    assert quality_by_price(empty) is recall_by_alpha(empty) is cost_by_stage(empty) is None
    assert recall_by_alpha(reports.three()) is None  # nothing differs in alpha alone
    plot = quality_by_price(reports.errors_only())
    assert plot is not None
    assert "1 of 2 methods lack one of the two figures" in plot.caption


def test_the_front_is_told_in_words() -> None:
    plot = quality_by_price(reports.three())
    assert plot is not None
    about = ET.fromstring(plot.svg)[1].text or ""
    assert re.findall(r"([^:;]+): [\d.,]+ prompt tokens", about.partition(": ")[2]) == [
        "no retrieval",
        " ParetoRAG top-10",
        " ParetoRAG top-30",
    ]


def test_without_a_generator_quality_is_recall_against_contexts() -> None:
    plot = quality_by_price(reports.sweep())
    assert plot is not None
    assert plot.title == "Passage recall@10 against contexts"


def test_labels_keep_clear_of_one_another() -> None:
    points = [(x / 7 % 1, x / 5 % 1) for x in range(12)]
    with ground("test"):
        drawing, (axes,) = axes_grid(1, 1, (7.0, 4.5))
        axes.scatter(*zip(*points, strict=True))
        label_points(axes, points, [f"method number {n}" for n in range(12)], pareto_front(points))
        drawing.draw_without_rendering()  # which is what puts labels to their places
        boxes = [Text.get_window_extent(text, drawing.canvas.get_renderer()) for text in axes.texts]  # without lines
    assert len(boxes) == 12
    assert not any(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])


# Families and sweeps


def test_families_differ_in_alpha_alone() -> None:
    found = families(ALPHA, reports.grid().methods)
    assert next(iter(found)) == "context=exact, top_k=10"
    assert [*map(len, found.values())] == [10] * 4


def test_a_panel_for_each_k_with_a_line_for_each_setting() -> None:
    found = panels(reports.grid())
    assert [panel.title for panel in found] == ["passage recall@1", "passage recall@5", "passage recall@10"]
    # Recall@k does not know how many contexts went into the prompt: top_k=10 and 30 are one line.
    assert [*found[0].lines] == ["context=exact", "context=late"]
    assert [*found[0].lines["context=late"]] == [n / 10 for n in range(1, 11)]


def test_methods_without_alpha_are_levels() -> None:
    assert panels(reports.sweep())[0].levels == {"naive": 0.32, "bm25": pytest.approx(0.2)}


def test_one_setting_is_one_panel_with_a_line_for_each_k() -> None:
    (panel,) = panels(reports.lone_sweep())
    assert [*panel.lines] == ["k = 1", "k = 5"]


# SQL


@pytest.mark.parametrize("make", [reports.three, reports.grid, reports.no_methods])
def test_the_queries_of_the_page_are_valid(make: Callable[[], Report], tmp_path: Path) -> None:
    for query in queries(make()):
        program, verb, sql = shlex.split(query.command)
        assert (program, verb) == ("vitalfew", "sql")
        assert catalog.query(tmp_path, sql).fetchall() == []


def test_a_query_names_the_store_and_survives_the_shell() -> None:
    odd = Report("x", "o'clock $HOME", reports.one().when, "my store", reports.ASKED, ())
    *_, last = (shlex.split(query.command) for query in queries(odd))
    assert last[3:] == ["--store", "my store"]
    assert "run_id = 'o''clock $HOME'" in last[2]
