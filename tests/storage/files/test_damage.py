"""A flipped bit is an error that names the file, whatever reads it; where a format cannot see it, its checksum does."""

import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.storage import files
from vitalfew.storage.files import Damaged

ROWS = 5_000
TEXTS = pa.table({"id": range(ROWS), "text": [f"text {row}" for row in range(ROWS)], "names": [["a", "b"]] * ROWS})
VECTORS = pa.table(
    {
        "kind": pa.DictionaryArray.from_arrays(np.zeros(ROWS, np.int8), ["core", "context"]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(4 * ROWS, dtype=np.float32)), 4),
    }
)


def batches(path: Path) -> pa.Table:
    with files.OpenTable(path) as file:
        return pa.Table.from_batches(file.iter_batches(1000))


READERS: dict[str, Callable[[Path], pa.Table]] = {
    "whole": files.read_table,
    "where": lambda path: files.read_table(path, where=pc.scalar(True)),
    "batches": batches,
}


def pages_end(path: Path) -> int:
    """Where the pages of a Parquet file end, and its indexes and footer begin."""
    group = pq.read_metadata(path).row_group(1)
    last = group.column(group.num_columns - 1)
    start = last.dictionary_page_offset if last.has_dictionary_page else last.data_page_offset
    return int(start + last.total_compressed_size)


def flipped(path: Path, place: int, bit: int = 0) -> Path:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    copy = path.with_name(f"flipped-{path.name}")
    copy.write_bytes(content)
    return copy


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("written")
    paths = {name: folder / f"{name}.parquet" for name in ("texts", "vectors")}
    for name, table in (("texts", TEXTS), ("vectors", VECTORS)):
        files.write_table(paths[name], table)
    return paths


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["texts", "vectors"])
@settings(max_examples=15)
@given(share=st.floats(0, 0.9999), bit=st.integers(0, 7))
def test_a_flipped_bit_of_a_table_is_seen(
    written: dict[str, Path], name: str, reader: str, share: float, bit: int
) -> None:
    """The content of a page has a checksum; a page's header may have a bit that changes no row."""
    whole = READERS[reader](written[name])
    assert whole.num_rows == ROWS
    path = flipped(written[name], int(4 + share * (pages_end(written[name]) - 4)), bit)
    told = ""
    try:
        assert READERS[reader](path).equals(whole)
    except Damaged as error:
        told = str(error)
    assert not told or re.search(rf"flipped-{name}\.parquet is damaged: .*`vitalfew store verify`", told)


@settings(max_examples=25)
@given(share=st.floats(0, 0.9999), bit=st.integers(0, 7))
def test_a_damaged_footer_is_no_other_error(written: dict[str, Path], share: float, bit: int) -> None:
    """Most of a footer (names, statistics) changes no row, and is not always seen."""
    end, size = pages_end(written["texts"]), written["texts"].stat().st_size
    path = flipped(written["texts"], int(end + share * (size - end)), bit)
    with suppress(Damaged):
        files.read_schema(path)
        files.read_table(path)


@pytest.mark.parametrize("kind", ["arrow", "npy", "npz"])
def test_what_does_not_see_damage_by_itself_is_seen_by_its_checksum(tmp_path: Path, kind: str) -> None:
    whole, numbers = tmp_path / f"whole.{kind}", np.arange(100)
    write: dict[str, Callable[[], None]] = {
        "arrow": lambda: files.write_arrow(whole, TEXTS),
        "npy": lambda: files.write_array(whole, numbers),
        "npz": lambda: files.write_arrays(whole, {"a": numbers}),
    }
    read: dict[str, Callable[[Path], Any]] = {
        "arrow": files.read_arrow, "npy": files.read_array, "npz": files.read_arrays
    }  # fmt: skip
    write[kind]()
    expected, size = files.checksum(whole), whole.stat().st_size
    for place in range(0, size, max(1, size // 100)):
        path = flipped(whole, place)
        with pytest.raises(Damaged):
            files.checked(path, expected)
        with suppress(Damaged), warnings.catch_warnings(action="ignore"):
            content = read[kind](path)
            assert kind != "npz" or np.array_equal(content["a"], numbers)  # which has checksums of its own
