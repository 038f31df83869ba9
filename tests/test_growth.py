"""Work that grows no faster than the corpus: the whole index, counted; and what is made of the counts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.growth import BY_SHARD

ROOT = Path(__file__).parents[1]
# Runs and shards so small that a corpus of 10^4 passages has as many of both as one of 10^8 has at default settings,
# in proportion to what is spread at once.
MEASURE = """
import json, sys
from pathlib import Path
from benchmarks import growth as counting
from vitalfew.storage import staging
from vitalfew.tasks import load
load.RUN_ROWS, staging.PARTITIONS, staging.GROUP = 100, 8, 8
size, store = int(sys.argv[1]), Path(sys.argv[2])
counting.watch()
given = counting.parameters(size, store, {}, {"shard_passages": 100})
if sys.argv[3] == "check":
    print(json.dumps({"check": counting.check(given)}))
else:
    stages = {}
    counting.measure(given, stages.__setitem__)
    print(json.dumps(stages))
"""
GROWS = {("load", "get"): 2.5}
"""A shard reads its rows from every group of runs, of which 10^4 passages have 13 here (as 5·10^7 by default):
docs/results/growth.md says what that comes to."""


def counted(size: int, folder: Path) -> dict[str, dict[str, float]]:
    """By stage, of a corpus of so many passages."""
    stages: dict[str, dict[str, float]] = {}
    for step in ("measure", "check"):
        command = [sys.executable, "-c", MEASURE, str(size), str(folder / str(size)), step]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        stages |= json.loads(done.stdout.splitlines()[-1])
    return stages


@pytest.mark.slow
def test_nothing_grows_faster_than_the_corpus(tmp_path: Path) -> None:
    sizes = (1_000, 5_000)
    small, large = (counted(size, tmp_path) for size in sizes)
    assert small.keys() == large.keys() == {"load", "split", "encode", "index", "around", "check"}
    for stage, counts in large.items():
        for what in {*BY_SHARD, "read", "written", "bytes"}:
            before, after = small[stage][what] / sizes[0] * 1000, counts[what] / sizes[1] * 1000
            most = GROWS.get((stage, what), 1.5) * before + 1
            # what is read once, whatever the corpus (a library's own files), weighs less in the larger one
            assert after <= most, f"{stage}: {what} {before:.1f} → {after:.1f}"
