"""Work that grows no faster than the corpus: the whole index, counted by benchmarks/growth.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Runs and shards so small that a corpus of 10^4 passages has as many of both as one of 10^8 has at default settings,
# in proportion to what is spread at once.
MEASURE = """
import json, sys
from pathlib import Path
from benchmarks import growth
from storage import staging
from tasks import load
load.RUN_ROWS, staging.PARTITIONS, staging.GROUP = 100, 8, 8
store = Path(sys.argv[2])
growth.watch(store)
print(json.dumps(growth.measure(int(sys.argv[1]), store, shard_passages=100)))
"""


@pytest.mark.slow
def test_nothing_grows_faster_than_the_corpus(tmp_path: Path) -> None:
    small, large = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", MEASURE, str(size), str(tmp_path / str(size))],
                cwd=ROOT,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout.splitlines()[-1]
        )
        for size in (1_000, 10_000)
    )
    assert small.keys() == large.keys() == {"load", "split", "encode", "index", "check"}
    for stage, counts in large.items():
        for what, count in counts.items():
            # what is read once, whatever the corpus (a library's own files), weighs less in the larger one
            assert count <= 1.5 * small[stage][what] + 1, f"{stage}: {what} {small[stage][what]:.1f} → {count:.1f}"
