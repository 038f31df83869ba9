"""The JSON reader: it reads what the json module reads, wherever its buffer ends, and says where a document breaks."""

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.tasks.datasets import json_stream
from vitalfew.tasks.datasets.base import Reject
from vitalfew.tasks.datasets.json_stream import BrokenJson, JsonReader

ROWS = [12345, -1.5e-3, True, None, 'é😀\\"', {"title": "T", "text": "\u2028 a", "n": [[], {}]}, "\ud800", 0]


def read(document: bytes, chunk: int) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK", chunk)
        reader = JsonReader(BytesIO(document))
        values = list(reader.array())
        reader.end()
        return values


@settings(max_examples=40)
@given(content=st.text('[]{},:"\\\\u0e-.1 trué', max_size=30), chunk=st.integers(1, 9))
def test_what_is_read_is_what_the_json_module_reads(content: str, chunk: int) -> None:
    document = f"[{content}]"
    try:
        expected = json.loads(document)
    except ValueError:
        with pytest.raises(BrokenJson) as caught:
            read(document.encode(), chunk)
        assert 0 <= caught.value.byte <= len(document.encode())
    else:
        assert read(document.encode(), chunk) == expected


LONG: list[Any] = [
    "x" * 200, "\\" * 200, '"]}[{,' * 50, [[{"a": [1, {}]}] * 30, "]"], {"a": {"b": ["}" * 200]}}, int("7" * 150),
    "é😀" * 100, [1] * 120,
]  # fmt: skip


@settings(max_examples=40)
@given(st.lists(st.sampled_from([*LONG, *ROWS]), max_size=8), st.sampled_from([1, 3, 16, 50]), st.booleans())
def test_a_long_value_is_skipped_and_those_around_it_are_read(rows: list[Any], chunk: int, ascii: bool) -> None:
    document = json.dumps(rows, ensure_ascii=ascii or "\ud800" in rows).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "VALUE_LIMIT", 100)
        values = read(document, chunk)
    assert len(values) == len(rows)
    for row, value in zip(rows, values, strict=True):
        if row in LONG:
            assert isinstance(value, Reject)
            assert (value.reason, value.detail) == ("over_long", "the value is longer than 100 bytes")
        else:
            assert value == row


def test_a_long_value_that_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "VALUE_LIMIT", 100)
    for document in ('["' + "x" * 300, "[[" + "[]," * 100, '["' + "x" * 300 + "\\"):
        with pytest.raises(BrokenJson, match="ends in the middle of a value") as caught:
            read(document.encode(), 1)
        assert caught.value.byte == len(document)


def test_a_value_of_many_parts_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MOST_MARKS", 1000)
    monkeypatch.setattr(json_stream, "_FEW_MARKS", 500)
    prose = "A text, with some commas. " * 200
    values = read(json.dumps([1, [{}] * 1000, prose, {"a": 2}]).encode(), 64)
    assert values[0] == 1
    assert values[1].detail == "the value has more than 1,000 quotes, brackets and commas"
    assert values[2:] == [prose, {"a": 2}]
