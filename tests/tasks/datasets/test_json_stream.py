"""The JSON reader: it reads what the json module reads, wherever its buffer ends, and says where a document breaks."""

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.datasets import json_stream
from tasks.datasets.json_stream import BrokenJson, JsonReader

ROWS = [12345, -1.5e-3, True, None, 'é😀\\"', {"title": "T", "text": "\u2028 a", "n": [[], {}]}, "\ud800", 0]


def read(document: bytes, chunk: int) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK", chunk)
        reader = JsonReader(BytesIO(document))
        values = list(reader.array())
        reader.end()
        return values


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("layout", [{}, {"indent": 2}, {"separators": (",", ":")}])
def test_where_the_buffer_ends_makes_no_difference(chunk: int, layout: dict[str, Any]) -> None:
    assert read(json.dumps(ROWS, **layout).encode(), chunk) == ROWS
    storable = [row for row in ROWS if not isinstance(row, str) or row.isprintable()]
    assert read(json.dumps(storable, ensure_ascii=False, **layout).encode(), chunk) == storable


@pytest.mark.parametrize(
    ("document", "values"),
    [
        ({"version": [1, {"data": [2]}], "data": ROWS, "data ": [3], "more": "x"}, ROWS),
        ({"data": {"item": [1]}, "other": [2]}, []),
        ({}, []),
    ],
)
def test_an_array_is_found_by_its_key_at_the_top(document: Any, values: list[Any]) -> None:
    reader = JsonReader(BytesIO(json.dumps(document).encode()))
    assert list(reader.array_at("data")) == values
    reader.end()


@settings(max_examples=500, deadline=None)
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


@pytest.mark.parametrize("tail", ["é".encode(), b"\xff"])
def test_the_place_is_exact_where_the_buffer_ends_inside_a_character(tail: bytes) -> None:
    with pytest.raises(BrokenJson, match=r"found '}12345678'\)") as caught:
        read(b"[}12345678" + tail, 11)
    assert caught.value.byte == 1


def test_a_long_value_is_tried_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    decode, tries = json_stream._DECODE, []

    def counted(text: str, at: int) -> tuple[Any, int]:
        tries.append(at)
        return decode(text, at)

    monkeypatch.setattr(json_stream, "_DECODE", counted)
    assert read(json.dumps(["x" * 8_000_000, 1]).encode(), json_stream.CHUNK)[1] == 1
    assert len(tries) < 15
