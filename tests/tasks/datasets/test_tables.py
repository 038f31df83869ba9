"""Tables whose columns options name: csv and parquet, and the reader of delimited files below csv."""

import csv
import io
import json
import math
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tasks.datasets.test_datasets import dataset, only, read, write
from vitalfew.tasks.datasets import delimited
from vitalfew.tasks.datasets.base import InputError, Passage, Question, Reject
from vitalfew.tasks.datasets.delimited import CSV, QUOTED_TSV, Dialect, delimited_rows
from vitalfew.tasks.datasets.rows import RowError, answers_of
from vitalfew.tasks.datasets.specification import parse_dataset


def rows(path: Path, dialect: Dialect = CSV, columns: tuple[str, ...] | None = None) -> list[tuple[int, Any]]:
    return list(delimited_rows(path, dialect, columns))


def reasons(records: list[tuple[int, Any]]) -> list[tuple[int, str]]:
    return [(number, record.reason) for number, record in records if isinstance(record, Reject)]


def table(folder: Path, *table_rows: dict[str, Any]) -> Path:
    path = folder / "a.parquet"
    pq.write_table(pa.Table.from_pylist(list(table_rows)), path)
    return path


# --- Delimited rows


def test_a_row_has_the_line_it_starts_on_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf\r\na,"b ""c"""\r\n1,"two\r\nlines"\r\n\r\n"",3\r\nx\x00,y'
    assert rows(write(tmp_path, content)) == [
        (3, {"a": "1", 'b "c"': "two\r\nlines"}),
        (6, {"a": "", 'b "c"': "3"}),
        (7, {"a": "x\0", 'b "c"': "y"}),
    ]
    assert rows(write(tmp_path, b"1,2\n"), CSV, ("a", "b")) == [(1, {"a": "1", "b": "2"})]
    assert rows(write(tmp_path, b"a,b\n")) == []


def test_a_row_at_fault_is_one_reject_and_reading_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "ROW_LIMIT", 1000)
    for broken, rejects in {
        '1,"open\n2,b\n3,"x","y"': [(2, "',' expected after '\"'"), (4, "3 fields instead of 2")],
        '1,"an "inner" quote"': [(2, "; a quote within a quoted field must be doubled")],
        "1,b\rc": [(2, "a carriage return within the row")],
        "x" * 5000: [(2, "line 2 is longer than 1,000 bytes")],
    }.items():
        content = f"a,b\n{broken}\nlast,row\n".encode()
        found = rows(write(tmp_path, content))
        assert found[-1] == (content.count(b"\n"), {"a": "last", "b": "row"})
        assert [number for number, _ in reasons(found)] == [number for number, _ in rejects]
        assert all(told in row.detail for row, (_, told) in zip(only(Reject, found), rejects, strict=True))


def test_no_file_takes_quadratic_time_and_what_is_given_up_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line leaves a quote open, whether it starts in one or not."""
    monkeypatch.setattr(delimited, "ROW_LIMIT", 20_000)
    started = time.process_time()
    found = rows(write(tmp_path, "a,b\n" + 'x","\n' * 100_000))
    assert time.process_time() - started < 60
    given_up = [row.detail for _, row in found if row.detail.startswith("lines ")]
    assert given_up
    covered = sum(int(words[3]) - int(words[1]) + 1 for words in map(str.split, given_up))
    assert covered + len(found) - len(given_up) == 100_000


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.text('ab"\t,é\n\r \0'), min_size=2, max_size=2), max_size=8),
    st.sampled_from([CSV, QUOTED_TSV]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_the_csv_module_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, written: list[list[str]], dialect: Dialect, end: str
) -> None:
    file = io.StringIO()
    # All fields quoted, as the writer forgets to quote a carriage return.
    writer = csv.writer(file, delimiter=dialect.delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([["x", "y"], *written])
    path = write(tmp_path_factory.getbasetemp(), file.getvalue())
    assert [[row["x"], row["y"]] for _, row in rows(path, dialect)] == written


# --- CSV


def test_csv_columns_can_have_any_name_and_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([['the "body"', "a\nb", "x&y=z?", "100%"], ["Text.", "T", "n1", "x"]])
    _, parsed = parse_dataset(f'csv:{path}?text=the "body"&title=a%0Ab&id=x%26y=z%3F')
    assert list(parsed.records()) == [(3, Passage("T", "Text.", "n1"))]
    assert list(parse_dataset(f"csv:{path}?text=100%")[1].records()) == [(3, Passage("", "x", ""))]
    records = read("csv", write(tmp_path, "id;title;text\n1; A ; one \n2;;\n4;x\n"), delimiter=";")
    assert records[0] == (2, Passage("A", "one", "1"))
    assert reasons(records) == [(3, "empty_text"), (4, "malformed_row")]
    options = {"delimiter": "tab", "quoted": "false", "columns": "id,text"}
    records = read("csv", write(tmp_path, '1\t"a\n2\tb\n'), **options)
    assert records == [(1, Passage("", '"a', "1")), (2, Passage("", "b", "2"))]
    records = read("csv", write(tmp_path, "question,gold\nWhy?,so|thus\n"), answers="gold", separator="|")
    assert records == [(2, Question("Why?", ("so", "thus")))]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1947, 2.50, 8.0, "in 1947", None, " "], ("1947", "2.5", "8", "in 1947")),
        (datetime(1947, 5, 10), ("1947-05-10",)),
        (Decimal("12.50"), ("12.50",)),
        (math.nan, ()),
        ([{"text": "Lena", "answer_start": 3}], ("Lena",)),
        ("['Lena', \"Karl's\", 7]", ("Lena", "Karl's", "7")),
        ("['Lena Ost' 'Karl West']", ("Lena Ost", "Karl West")),
        ("[1947 1948]", ("1947", "1948")),
        ("{'text': ['Lena'], 'answer_start': [3]}", ("Lena",)),
        ("[sic]", ("[sic]",)),
        (["[a, b]"], ("[a, b]",)),
        ({"value": "Lena"}, "wrong_type"),
        ("['Lena', Karl]", "malformed_json"),
        ('["Lena"', "malformed_json"),
    ],
)
def test_kinds_of_answers(value: object, expected: object) -> None:
    if isinstance(expected, tuple):
        assert answers_of(value) == expected
        return
    with pytest.raises(RowError) as raised:
        answers_of(value)
    assert raised.value.reason == expected


def test_a_column_is_found_by_its_usual_name_and_what_holds_no_answer_is_passed_over(tmp_path: Path) -> None:
    rows = [
        {"Question": "Who?", "answers": [], "Answer ": "Ada", "ID": 3.0},
        {"question": "When?", "answers": "noon", "answer": "12"},
        {"question": "Where?", "answers": [""]},
    ]
    for content in ("\n".join(map(json.dumps, rows)), json.dumps(rows), json.dumps(rows, indent=1)):
        records = read("jsonl", write(tmp_path, content))
        assert [(each.text, each.answers) for each in only(Question, records)] == [
            ("Who?", ("Ada",)),
            ("When?", ("noon",)),
            ("Where?", ()),
        ]
        assert only(Question, records)[0].source_id == "3"


@pytest.mark.parametrize(("encoding", "delimiter"), [("utf-8-sig", ";"), ("utf-16", "\t"), ("utf-32", ",")])
def test_what_spreadsheets_save_is_read(tmp_path: Path, encoding: str, delimiter: str) -> None:
    rows = [["Question", "Answers"], ["Qui, où; et quand?", "Zoë\n😀"], ["Who?", "['Ada', 'Bea']"]]
    with open(tmp_path / "a.csv", "w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    records = read("csv", tmp_path / "a.csv")
    assert [(number, record.text, record.answers) for number, record in records if isinstance(record, Question)] == [
        (2, "Qui, où; et quand?", ("Zoë\n😀",)),
        (4, "Who?", ("Ada", "Bea")),
    ]
    if encoding != "utf-8-sig":
        content = (tmp_path / "a.csv").read_bytes()
        (tmp_path / "a.csv").write_bytes(content[:-1])
        with pytest.raises(InputError, match=r"a\.csv is cut short or broken: .* Write it again, as UTF-8"):
            read("csv", tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n", r"has no column 'text'; it has 'a', 'b'\. Name the columns with text="),
        (b"id:text\n1:a\n", r"If ',' does not separate its columns, set delimiter="),
        (b"text,text\na,b\n", r"line 1 names the column 'text' twice\. Rename one"),
    ],
)
def test_csv_whose_columns_are_not_there_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=rf"source\.json.*{message}"):
        read("csv", write(tmp_path, content))


# --- Parquet


def test_parquet_folders_are_read_in_order_and_counted_on(tmp_path: Path) -> None:
    given = {"b.parquet": "2", "a/z.parquet": "1", "c.PQ": "3", "_x/d.parquet": "-", ".e.parquet": "-"}
    for name, text in given.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        table(path.parent, {"text": text}).rename(path)
    assert read("parquet", tmp_path) == [(number, Passage("", str(number), "")) for number in (1, 2, 3)]
    assert [path.name for path in dataset("parquet", tmp_path).files()] == ["z.parquet", "b.parquet", "c.PQ"]


def test_parquet_that_is_none_is_an_error_and_a_broken_value_a_reject(tmp_path: Path) -> None:
    whole = table(tmp_path, {"text": "a"}).read_bytes()
    for content in (b"text\na\n", whole[:-9], whole[:20] + whole[30:]):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(InputError, match=r"a\.parquet: not readable as Parquet after row 0 .*fetch or write it"):
            read("parquet", tmp_path / "a.parquet")
    offsets = pa.array([0, 2, 3, 5], pa.int32()).buffers()[1]
    text = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"ab\xffcd")])
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    records = read("parquet", tmp_path / "a.parquet")
    assert [record.text for record in only(Passage, records)] == ["ab", "cd"]
    assert reasons(records) == [(2, "invalid_unicode")]
