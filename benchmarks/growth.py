"""`make bench-growth`: what may grow no faster than the corpus, from 10^4 to 10^7 passages, and what 10^8 come to.

    python -m benchmarks.growth [SIZE …] [--index ivf_pq] [--report]

The index of each size is made in a process of its own, one stage after the other (runner `serial`), and looked at by
another. Passages are generated, the encoder is a random projection to 32 numbers (benchmarks/growth_encoder.py), all
else is as `vitalfew index` has it by default, but for the index type and, of the largest size, LISTS. What is counted
is said in benchmarks/growth_counts.py. It is kept in build/growth.json, and sizes that are there are not made again:
remove the file to begin anew. The largest size takes 13 GB of disk and 55 minutes of one core.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULTS = Path("build/growth.json")
PLOT = RESULTS.with_suffix(".svg")
STORE = Path(os.environ.get("VITALFEW_GROWTH_STORE", "build/growth"))
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
LISTS = {10_000_000: 4096}
"""Lists of an IVF index, where the default number would take an hour or more of its own."""
SHARDS = (4096, 25_000)
"""Of a table of 10^8 passages: as many as it has by default, and as many as it has with 4,096 passages in each."""


def known() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(group: str, name: str, value: Any) -> None:
    """Enter a figure in RESULTS."""
    results = known()
    results.setdefault(group, {})[name] = value
    RESULTS.parent.mkdir(exist_ok=True)
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1))
    temporary.replace(RESULTS)


def one(size: int, index: str, checking: bool) -> None:
    """One size, in this process."""
    from benchmarks import growth_counts as counting

    counting.watch(STORE)
    lists = {"nlist": LISTS[size]} if size in LISTS and index.startswith("ivf") else {}
    given = counting.parameters(size, STORE, {"type": index, **lists}, {})
    if checking:
        keep(str(size), counting.CHECK, counting.check(given))
    else:
        counting.measure(given, lambda stage, total: keep(str(size), stage, total))


def every(sizes: list[int], index: str) -> None:
    """Sizes that are not known yet, each in processes of its own."""
    for size in sizes:
        if "check" in known().get(str(size), {}):
            continue
        shutil.rmtree(STORE, ignore_errors=True)
        for step in ("--measure", "--check"):
            command = [sys.executable, "-m", "benchmarks.growth", step, str(size), "--index", index]
            subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        keep(str(size), "index type", index)
        shutil.rmtree(STORE, ignore_errors=True)


def machine() -> None:
    """What is measured once, whatever the sizes: the rates of an index at real widths, and the catalog."""
    from benchmarks import growth_catalog, growth_rates

    if "rates" not in known():
        growth_rates.measure(lambda name, value: keep("rates", name, value), RESULTS.parent)
    for shards in SHARDS:
        if str(shards) not in known().get("catalog", {}):
            figures: dict[str, Any] = {}
            growth_catalog.figures(shards, figures.__setitem__)
            keep("catalog", str(shards), figures)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("sizes", nargs="*", type=int)
    options.add_argument("--index", default="ivf_pq")
    options.add_argument("--report", action="store_true", help="of what is known, and measure nothing")
    for step in ("measure", "check"):
        options.add_argument(f"--{step}", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.measure or given.check:
        one(given.measure or given.check, given.index, bool(given.check))
        return
    if not given.report:
        every(given.sizes or list(SIZES), given.index)
        machine()
    from benchmarks.growth_plot import drawn
    from benchmarks.growth_report import report

    PLOT.write_text(drawn(known()))
    print(report(known()), f"\nThe plot is {PLOT}", sep="")


if __name__ == "__main__":
    main()
