"""Parquet files of a few kilobytes that announce gigabytes, or have them: they are read in bounded memory, or give an
error that names the file and the remedy. Processes that do nothing else read them, and their memory is measured."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.mutations import announced, failures
from tests.tasks.datasets.test_datasets import dataset, read
from vitalfew.tasks.datasets.base import InputError

ROOT = Path(__file__).parents[3]
READ = """
import collections, sys
from pathlib import Path
from vitalfew.tasks.datasets.tables import Parquet
options = Parquet.Options.model_validate(dict(option.split("=") for option in sys.argv[2:]))
records = (record for _, record in Parquet(Path(sys.argv[1]), options).records())
print(collections.Counter(getattr(record, "reason", type(record).__name__) for record in records))
"""
MEASURED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (12 << 30,) * 2)
try:
    exec({!r})
finally:
    print(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
"""
ROWS = 12_345
"""A number that is in a footer only as the number of rows or values."""
LONG = "t " * 500_000


def measured(program: str, *arguments: str | Path) -> tuple[int, str]:
    """Run a program in a process: MiB of memory that it took at most, and its output. What the system itself counts for
    a process begins with its parent's memory."""
    command = [sys.executable, "-c", MEASURED.format(program), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    *printed, peak = done.stdout.splitlines()
    return int(peak) >> 10, "\n".join(printed)


def shared(rows: int, text: str | bytes) -> pa.DictionaryArray:
    """So many rows of one text, which takes the file a few bytes."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))


def written(folder: Path, **columns: pa.Array) -> Path:
    """A file of one row group, whose dictionaries are read as what is in them."""
    table = pa.table(columns)
    path, rows = folder / "f.parquet", table.num_rows
    pq.write_table(table, path, compression="zstd", row_group_size=rows, store_schema=False)
    return path


def lists(values: pa.Array, rows: int) -> pa.ListArray:
    """Rows that have equally many of some values, or one more."""
    ends = np.linspace(0, len(values), rows + 1).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values)


def questions(rows: int) -> pa.Array:
    return pa.array([f"Why {number}?" for number in range(rows)])


def test_texts_that_rows_share_within_a_struct_are_not_all_in_memory(tmp_path: Path) -> None:
    """1 GB of texts in a file of some hundred bytes: they took 2,498 MiB."""
    file = written(tmp_path, a=pa.StructArray.from_arrays([shared(1_000, LONG)], ["b"]))
    assert file.stat().st_size < 40_000
    memory, printed = measured(READ, file, "text=a.b")
    assert printed == "Counter({'Passage': 1000})"
    assert memory < 700


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_every_encoding_of_texts_is_read(tmp_path: Path, encoding: str) -> None:
    texts = [f"Text {number}." for number in range(2_000)]
    pq.write_table(
        pa.table({"text": texts}), tmp_path / "f.parquet", use_dictionary=False, column_encoding={"text": encoding}
    )
    assert [record.text for _, record in dataset("parquet", tmp_path / "f.parquet").records()] == texts


@pytest.mark.parametrize("times", [1, 2, -1])
@pytest.mark.parametrize("instead", [2**62, 2**31, ROWS + 1, ROWS - 1, 1, -1, -(2**62)])
def test_a_footer_with_another_number_of_rows(tmp_path: Path, instead: int, times: int) -> None:
    """In one place, in two, or wherever the footer has it: no row is lost without an error."""
    file = written(tmp_path, text=pa.array([f"Text {number}." for number in range(ROWS)]))
    content = file.read_bytes()
    changed = announced(content, ROWS, instead, times)
    assert len(read("parquet", file)) == ROWS
    assert changed != content
    file.write_bytes(changed)
    if times == -1 and 0 < instead < ROWS:  # the footer agrees with itself, and only with it is the file compared
        assert len(read("parquet", file)) == instead
        return
    with pytest.raises(InputError, match=re.escape(str(file))):
        read("parquet", file)


def records(path: Path) -> int:
    return sum(1 for _ in dataset("parquet", path).records())


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["passages", "questions"])
def test_changed_files_are_read_or_refused(tmp_path: Path, kind: str, count: int) -> None:
    texts = pa.array([f"Text {number}." for number in range(300)])
    answers = lists(pa.array(["so", "thus", "because"] * 200), 300)
    columns = {"text": texts, "title": shared(300, "Title")} if kind == "passages" else {}
    file = written(tmp_path, **columns or {"question": texts, "answers": answers})
    assert records(file) == 300
    assert failures(file, records, (InputError,), count) == []


def test_one_huge_row_group_takes_what_many_take(tmp_path: Path) -> None:
    texts = pa.array([f"Passage number {number} is short." for number in range(100_000)])
    peaks = []
    for rows in (100_000, 1_000):
        pq.write_table(pa.table({"text": texts}), tmp_path / "f.parquet", row_group_size=rows)
        memory, printed = measured(READ, tmp_path / "f.parquet")
        assert printed == "Counter({'Passage': 100000})"
        peaks.append(memory)
    assert abs(peaks[0] - peaks[1]) < 100


def test_a_dictionary_of_one_text(tmp_path: Path) -> None:
    """2 GB of texts in 2 kB."""
    memory, printed = measured(READ, written(tmp_path, text=shared(2_000, LONG)))
    assert printed == "Counter({'Passage': 2000})"
    assert memory < 700


@pytest.mark.slow
def test_a_page_of_a_gigabyte_takes_two(tmp_path: Path) -> None:
    texts = pa.array([f"{'x' * ((1 << 20) - 12)}{number:07d}" for number in range(1_024)])
    pq.write_table(
        pa.table({"text": texts}), tmp_path / "f.parquet", compression="zstd", use_dictionary=False,
        data_page_size=2 << 30, row_group_size=1_024, write_batch_size=1_024,
    )  # fmt: skip
    memory, printed = measured(READ, tmp_path / "f.parquet")
    assert printed == "Counter({'Passage': 1024})"
    assert memory < 2_500
