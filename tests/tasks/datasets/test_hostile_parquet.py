"""Parquet files of a few kilobytes that announce gigabytes, or have them: they are read in bounded memory, or give an
error that names the file. Processes that do nothing else read them, and their memory is measured."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tasks.datasets.test_datasets import read
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
WRITTEN = {ROWS - 1: b"\xf0\xc0\x01", ROWS: b"\xf2\xc0\x01", ROWS + 1: b"\xf4\xc0\x01"}
"""Numbers as Thrift's compact protocol has them in Parquet's footer."""
LONG = "t " * 500_000


def measured(program: str, *arguments: str | Path) -> tuple[int, str]:
    """Run a program in a process: MiB of memory that it took at most, and its output. What the system itself counts for
    a process begins with its parent's memory."""
    command = [sys.executable, "-c", MEASURED.format(program), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    *printed, peak = done.stdout.splitlines()
    return int(peak) >> 10, "\n".join(printed)


def test_texts_that_rows_share_within_a_struct_are_not_all_in_memory(tmp_path: Path) -> None:
    """1 GB of texts in a file of some hundred bytes: they took 2,498 MiB."""
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000, np.int32)), pa.array([LONG]))
    file = tmp_path / "f.parquet"
    table = pa.table({"a": pa.StructArray.from_arrays([texts], ["b"])})
    pq.write_table(table, file, compression="zstd", row_group_size=1_000, store_schema=False)
    assert file.stat().st_size < 40_000
    memory, printed = measured(READ, file, "text=a.b")
    assert printed == "Counter({'Passage': 1000})"
    assert memory < 700


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, -1])
@pytest.mark.parametrize("instead", [ROWS + 1, ROWS - 1])
def test_a_footer_with_another_number_of_rows(tmp_path: Path, instead: int, times: int) -> None:
    """In one place, or wherever the footer has it: no row is lost without an error."""
    file = tmp_path / "f.parquet"
    pq.write_table(pa.table({"text": [f"Text {number}." for number in range(ROWS)]}), file)
    content = file.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    file.write_bytes(content[:footer] + content[footer:].replace(WRITTEN[ROWS], WRITTEN[instead], times))
    if times == -1 and instead < ROWS:  # the footer agrees with itself, and only with it is the file compared
        assert len(read("parquet", file)) == instead
        return
    with pytest.raises(InputError, match=re.escape(str(file))):
        read("parquet", file)
