"""Work that grows no faster than the corpus: the whole index, counted; and what is made of the counts."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.growth import BY_SHARD, request
from benchmarks.growth_report import (
    Lists,
    Power,
    Rates,
    exponent,
    extrapolated,
    fitted,
    full,
    per_passage,
    power,
    report,
)

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


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0, 1.5])
def test_the_exponent_of_a_power_is_its_own(slope: float) -> None:
    figures = {size: 3 * size**slope for size in (10**4, 10**5, 10**6, 10**7)}
    assert exponent(figures) == pytest.approx(slope)
    assert power(figures) == Power(pytest.approx(slope), 10**7, figures[10**7])  # type: ignore[arg-type]


def test_small_corpora_do_not_count() -> None:
    figures = {10: 10**9, 10**4: 10**4, 10**5: 10**5, 10**6: 10**6}
    assert exponent(figures) == pytest.approx(1)
    assert exponent(figures, largest=4) < 0


def test_nothing_and_a_single_size_have_no_exponent() -> None:
    assert exponent({10: 0, 100: 0, 1000: 0}) == exponent({10: 7}) == exponent({10: 0, 100: 5}) == 0
    with pytest.raises(ValueError, match="no size"):
        power({})


def test_what_grew_more_slowly_is_taken_to_grow_as_the_corpus_does() -> None:
    assert Power(0.5, 100, 7.0).value(1000) == 70
    assert Power(2.0, 100, 7.0).value(1000) == 700


def test_figures_per_passage_and_per_full_shard() -> None:
    assert per_passage({1000: 5, 2000: 8}) == {1000: 5, 2000: 4}
    # 4,096 passages in a shard, then half as many: twice the shards are no growth
    assert full({8192: 20, 81920: 400}, {8192: 2, 81920: 40}) == {8192: 20, 81920: 200}


RATES = Rates(width=100, product=1e-11, encode=1e-5, scan=1e-7, probe=1e-6, coarse=1e-10, shard=1e-5, visit=1e-6)


def test_an_index_whose_lists_grow_with_the_root_grows_faster_than_its_corpus() -> None:
    sizes = (10**6, 10**7, 10**8)
    growing = {size: Lists(size, int(4 * size**0.5), 64 * int(4 * size**0.5), 1).assigning(RATES) for size in sizes}
    fixed = {size: Lists(size, 1000, 64_000, 1).assigning(RATES) for size in sizes}
    assert exponent(growing) == pytest.approx(1.5)
    assert exponent(fixed) == pytest.approx(1)


def test_a_query_looks_into_as_many_lists_as_there_is_time_for() -> None:
    index = Lists(10**8, 10_000, 640_000, 20)
    most = index.lists_within(RATES, 0.1)
    assert index.query(RATES, most) <= 0.1 < index.query(RATES, most + 1)
    assert index.lists_within(RATES, index.query(RATES, 0) / 2) == 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [("write_json", "put"), ("read_table", "get"), ("status", "head"), ("statuses", "list"), ("find", "list"),
     ("remove_leftovers", "list"), ("remove_tree", "delete"), ("absolute", None), ("user_cache", None)],
)  # fmt: skip
def test_a_call_is_a_request_of_one_kind(name: str, kind: str | None) -> None:
    assert request(name) == kind


def results() -> dict[str, Any]:
    """Of a pipeline that does the same for every shard, and reads ten bytes a passage."""

    def stage(size: int, shards: int) -> dict[str, float]:
        names = dict.fromkeys(BY_SHARD, 3.0 * shards)
        return {
            **names,
            "read": 10.0 * size,
            "written": 1.0,
            "bytes": size,
            "cpu": size / 1e4,
            "peak": 2**29,
            "shards": shards,
        }

    sizes = {10**5: 32, 10**6: 256, 10**7: 4096}
    stages = ("load", "split", "encode", "index", "around", "check")
    return {str(size): {name: stage(size, shards) for name in stages} for size, shards in sizes.items()}


def test_shards_are_counted_as_full_ones_and_are_4096_at_most() -> None:
    assert fitted(results(), "split", "get") == pytest.approx(1)
    assert fitted(results(), "split", "read") == pytest.approx(1)
    assert extrapolated(results(), "split", "get") == 3 * 4096
    assert extrapolated(results(), "load", "kept") == 3 * 4096
    assert extrapolated(results(), "load", "get") == 30 * 4096  # its runs follow the rows
    assert extrapolated(results(), "split", "read") == pytest.approx(10 * 10**8)


def test_a_report_is_made_of_the_sizes_that_there_are() -> None:
    rates = {"width": 384, **dict.fromkeys(("product", "encode", "scan", "probe", "coarse", "shard", "visit"), 1e-9)}
    known = results() | {"rates": {"fused": rates, "dual": {**rates, "width": 768}}, "catalog": {"9": {"x": [1, 2]}}}
    text = report(known)
    assert "| index | 10,000,000 |" in text
    assert "| dual |" in text
    assert "nan" not in text
