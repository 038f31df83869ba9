"""Parquet files of a few kilobytes that announce gigabytes, or have them: they are read in bounded memory, or give an
error that names the file. Processes that do nothing else read them, and their memory is measured."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

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


def measured(program: str, *arguments: str | Path) -> tuple[int, str]:
    """Run a program in a process: MiB of memory that it took at most, and its output. What the system itself counts for
    a process begins with its parent's memory."""
    command = [sys.executable, "-c", MEASURED.format(program), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    *printed, peak = done.stdout.splitlines()
    return int(peak) >> 10, "\n".join(printed)


def test_one_huge_row_group_takes_what_many_take(tmp_path: Path) -> None:
    texts = pa.array([f"Passage number {number} is short." for number in range(100_000)])
    peaks = []
    for rows in (100_000, 1_000):
        pq.write_table(pa.table({"text": texts}), tmp_path / "f.parquet", row_group_size=rows)
        memory, printed = measured(READ, tmp_path / "f.parquet")
        assert printed == "Counter({'Passage': 100000})"
        peaks.append(memory)
    assert abs(peaks[0] - peaks[1]) < 100
