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
    with files.open_table(path) as file:
        return pa.Table.from_batches(file.iter_batches(1000))


READERS: dict[str, Callable[[Path], pa.Table]] = {
    "whole": files.read_table,
    "where": lambda path: files.read_table(path, where=pc.scalar(True)),
    "batches": batches,
}


def outcome(reader: Callable[[Path], pa.Table], path: Path) -> pa.Table | str:
    """The rows, or what the error tells."""
    try:
        return reader(path)
    except Damaged as error:
        return str(error)


def pages_end(path: Path) -> int:
    """Where the pages of a Parquet file end, and its indexes and footer begin."""
    metadata = pq.read_metadata(path)
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return max(
        column.dictionary_page_offset + column.total_compressed_size
        if column.has_dictionary_page
        else column.data_page_offset + column.total_compressed_size
        for group in groups
        for column in map(group.column, range(group.num_columns))
    )


def flipped(path: Path, place: int, bit: int = 0) -> Path:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    copy = path.with_name(f"flipped-{path.name}")
    copy.write_bytes(content)
    return copy


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("written")
    tables = {"texts": TEXTS, "vectors": VECTORS}
    for name, table in tables.items():
        files.write_table(folder / f"{name}.parquet", table)
    return {name: folder / f"{name}.parquet" for name in tables}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["texts", "vectors"])
@settings(max_examples=25, deadline=None)
@given(share=st.floats(0, 0.9999), bit=st.integers(0, 7))
def test_a_flipped_bit_of_a_table_is_seen(
    written: dict[str, Path], name: str, reader: str, share: float, bit: int
) -> None:
    """The content of a page has a checksum; a page's header may have a bit that changes no row."""
    whole = READERS[reader](written[name])
    assert whole.num_rows == ROWS
    path = flipped(written[name], int(4 + share * (pages_end(written[name]) - 4)), bit)
    came = outcome(READERS[reader], path)
    if isinstance(came, str):
        assert re.search(rf"flipped-{name}\.parquet is damaged: .*`vitalfew store verify`", came)
    else:
        assert came.equals(whole)


@settings(max_examples=40, deadline=None)
@given(share=st.floats(0, 0.9999), bit=st.integers(0, 7))
def test_a_damaged_footer_is_no_other_error(written: dict[str, Path], share: float, bit: int) -> None:
    """Most of a footer (names, statistics) changes no row, and is not always seen."""
    end, size = pages_end(written["texts"]), written["texts"].stat().st_size
    path = flipped(written["texts"], int(end + share * (size - end)), bit)
    with suppress(Damaged):
        files.read_schema(path)
        files.read_table(path)


OTHERS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any], bool]] = {
    "arrow": (lambda path: files.write_arrow(path, TEXTS), files.read_arrow, False),
    "npy": (lambda path: files.write_array(path, np.arange(100)), files.read_array, False),
    "npz": (lambda path: files.write_arrays(path, {"a": np.arange(100)}), files.read_arrays, True),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_does_not_see_damage_by_itself_is_seen_by_its_checksum(tmp_path: Path, kind: str) -> None:
    write, read, sees = OTHERS[kind]
    whole = tmp_path / f"whole.{kind}"
    write(whole)
    expected, size = files.checksum(whole), whole.stat().st_size
    for place in range(0, size, max(1, size // 150)):
        path = flipped(whole, place)
        with pytest.raises(Damaged):
            files.checked(path, expected)
        with suppress(Damaged), warnings.catch_warnings(action="ignore"):
            content = read(path)
            assert not sees or np.array_equal(content["a"], np.arange(100))
