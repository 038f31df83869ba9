"""Work that grows no faster than the corpus: the whole index, counted; and what is made of the counts."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.growth import BY_SHARD, extrapolated, fitted, report

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
counting.watch(store)
given = counting.parameters(size, store, {}, {"shard_passages": 100})
if sys.argv[3] == "check":
    print(json.dumps({"check": counting.check(given)}))
else:
    stages = {}
    counting.measure(given, stages.__setitem__)
    print(json.dumps(stages))
"""
GROWS = {("load", "get"): 2.5}
"""A shard reads its rows from every group of runs, of which 10^4 passages have 13 here, as 5·10^7 have by default:
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
    sizes = (1_000, 10_000)
    small, large = (counted(size, tmp_path) for size in sizes)
    assert small.keys() == large.keys() == {"load", "split", "encode", "index", "around", "check"}
    for stage, counts in large.items():
        for what in {*BY_SHARD, "read", "written", "bytes"}:
            before, after = small[stage][what] / sizes[0] * 1000, counts[what] / sizes[1] * 1000
            most = GROWS.get((stage, what), 1.5) * before + 1
            # what is read once, whatever the corpus (a library's own files), weighs less in the larger one
            assert after <= most, f"{stage}: {what} {before:.1f} → {after:.1f}"


def test_what_grows_by_shard_or_by_row_is_extrapolated_as_such_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A pipeline that does the same for every shard, and reads ten bytes a passage."""
    results: dict[str, dict[str, Any]] = {}
    for size, shards in {10**5: 32, 10**6: 256, 10**7: 4096}.items():
        by_row = {"read": 10.0 * size, "written": 1.0, "bytes": size, "cpu": size / 1e4, "peak": 2**29}
        figures = {**dict.fromkeys(BY_SHARD, 3.0 * shards), **by_row, "shards": shards}
        results[str(size)] = dict.fromkeys(("load", "split", "encode", "index", "around", "check"), figures)
    assert [fitted(results, "split", name) for name in ("get", "read")] == pytest.approx([1, 1])
    assert extrapolated(results, "split", "get") == 3 * 4096  # the shards of 10^8 passages are as many
    assert extrapolated(results, "load", "get") == 30 * 4096  # its runs follow the rows
    assert extrapolated(results, "split", "read") == pytest.approx(10 * 10**8)
    report(results)
    assert "| index | 10,000,000 |" in capsys.readouterr().out
