"""The report: the same figures on a terminal, as Markdown, as tables and as a page, whatever the results look like."""

import csv as builtin_csv
import io
import math
import re
import shlex
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv
from rich.cells import cell_len
from rich.console import Console

from tests.support import reports
from vitalfew.storage.catalog import database as catalog
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.shown.columns import cells, default_columns, pareto_front
from vitalfew.tasks.reports.shown.markdown import markdown_report
from vitalfew.tasks.reports.shown.page import page
from vitalfew.tasks.reports.shown.sections import queries
from vitalfew.tasks.reports.shown.tables import LONG, arrow_table, csv_bytes, long_table, wide_table
from vitalfew.tasks.reports.shown.terminal import terminal_report

every = pytest.mark.parametrize("make", reports.ALL, ids=lambda make: make.__name__)
VOID = {"meta", "br", "hr", "img", "link", "input"}


def shown(report: Report, width: int, is_full: bool = False) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as printed:
        console.print(terminal_report(report, width, is_full))
    return printed.get()


class Page(HTMLParser):
    """Checks that tags nest, and keeps what the tests look at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def values(self, *names: str) -> list[str]:
        return [attributes[name] or "" for _, attributes in self.tags for name in names if name in attributes]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_the_front_is_what_nothing_dominates(points: list[tuple[int, int]]) -> None:
    def dominated(point: tuple[int, int]) -> bool:
        return any(x <= point[0] and y >= point[1] and (x, y) != point for x, y in points)

    front = pareto_front(points)
    assert {*front} == {number for number, point in enumerate(points) if not dominated(point)}
    assert [points[number] for number in front] == sorted(points[number] for number in front)


# The terminal


@every
def test_a_narrow_terminal_shows_every_figure(make: Callable[[], Report]) -> None:
    report = make()
    text = shown(report, 45, is_full=True)
    assert max(map(cell_len, text.splitlines())) <= 45
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    words = text.split()
    for metric in default_columns(report) if make is reports.three else ():
        for cell in cells(report, metric):
            assert f"{cell.text}{'*' if cell.best else ''}" in words


# Tables


@every
def test_long_and_wide_tables_hold_the_same_figures_and_survive_parquet_and_csv(
    make: Callable[[], Report], tmp_path: Path
) -> None:
    report = make()
    long, wide = long_table(report), wide_table(report)
    assert long.to_arrow().cast(LONG).schema == LONG
    by_method = {row["method"]: row for row in wide.to_dicts()}
    assert all(by_method[row["method"]][row["metric"]] == row["value"] for row in long.to_dicts())
    assert wide["error_rows"].to_list() == [method.error_rows for method in report.methods]
    for frame in (long, wide):
        table = arrow_table(frame)
        pq.write_table(table, tmp_path / "table.parquet")
        assert pq.read_table(tmp_path / "table.parquet").equals(table)
        options = csv.ConvertOptions(column_types=table.schema, strings_can_be_null=True)
        parsing = csv.ParseOptions(newlines_in_values=True)
        read = csv.read_csv(io.BytesIO(csv_bytes(frame)), parse_options=parsing, convert_options=options)
        assert read.to_pylist() == table.to_pylist()


@settings(max_examples=50)
@given(st.lists(st.text("=+-@\t\r\n＝1.e'a \"", max_size=4), min_size=1))
def test_no_text_of_a_table_is_a_formula_in_a_spreadsheet(texts: list[str]) -> None:
    table = pl.DataFrame({"text": pl.Series(texts, dtype=pl.String), "=number": [-1.5] * len(texts)})
    heading, *rows = builtin_csv.reader(io.StringIO(csv_bytes(table).decode(), newline=""))
    assert heading == ["text", "'=number"]
    assert [number for _, number in rows] == ["-1.5"] * len(texts)
    for (cell, _), text in zip(rows, texts, strict=True):
        assert cell in (text, f"'{text}")
        assert not cell.startswith(tuple("=+-@\t\r\n＝")) or math.isfinite(float(cell))


# Markdown


def test_markdown_has_the_table_of_four_columns_and_takes_no_markup_from_data() -> None:
    text = markdown_report(report := reports.three())
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len(report.methods) + 2
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert "| ParetoRAG top-30 | 55 %, n = 1,000 | 1,308 |" in text
    strange = markdown_report(reports.strange_names())
    assert "\\<script\\>" in strange
    assert "ニュー" in strange
    assert not re.search(r"(?<!\\)<", strange)


# The page


@every
@pytest.mark.usefixtures("plots")
def test_the_page_is_well_formed_needs_nothing_else_and_has_a_text_for_every_plot(make: Callable[[], Report]) -> None:
    text = page(make())
    parsed = Page(text)
    tags = [tag for tag, _ in parsed.tags]
    assert not {"script", "link", "img", "iframe"} & {*tags}
    assert all(reference.startswith("#") for reference in parsed.values("href", "xlink:href", "src"))
    assert not re.search(r"@import|url\((?!#)", text)
    assert {*re.findall(r"https?://[\w./]+", text)} <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    ids = parsed.values("id")
    assert len(ids) == len({*ids})
    wanted = {name for names in parsed.values("aria-labelledby") for name in names.split()}
    assert wanted | {reference[1:] for reference in parsed.values("xlink:href")} <= {*ids}
    drawings = [attributes for tag, attributes in parsed.tags if tag == "svg"]
    assert all(attributes["role"] == "img" and attributes["aria-labelledby"] for attributes in drawings)
    assert drawings or make is not reports.three
    assert tags.count("desc") == tags.count("figcaption") == len(drawings)


def test_the_page_shows_data_and_does_not_obey_it() -> None:
    text = page(reports.strange_names(), plots=[])
    assert not {"i", "b"} & {tag for tag, _ in Page(text).tags}
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &#34;quotes&#34; $x^2$" in text
    assert "\x1b" not in text


def test_the_queries_of_the_page_are_valid_and_survive_the_shell(tmp_path: Path) -> None:
    for query in queries(reports.three()):
        program, verb, sql = shlex.split(query.command)
        assert (program, verb) == ("vitalfew", "sql")
        assert catalog.query(tmp_path, sql).fetchall() == []
    odd = Report("x", "o'clock $HOME", reports.one().when, "my store", reports.ASKED, ())
    *_, last = (shlex.split(query.command) for query in queries(odd))
    assert last[3:] == ["--store", "my store"]
    assert "run_id = 'o''clock $HOME'" in last[2]
