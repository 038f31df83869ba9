"""`make bench-growth`: work that may grow no faster than the corpus, from 10^4 to 10^7 passages.

    python -m benchmarks.growth [SIZE …] [--index ivf_pq] [--report]

The index of each size is made in a process of its own, one stage after the other (runner `serial`), and looked at by
another. Passages are generated, the encoder is a random projection to 32 numbers, all else
is as `vitalfew index` has it by default, but for the index type, keywords, which are left out, and, of the largest
size, LISTS. Figures are kept in build/growth.json, and sizes that are there are not made again: remove the file to
begin anew. The largest size takes 13 GB of disk and 55 minutes of one core.

Everything is counted from outside, in a process that runs the stages one after the other:

- *kept*: files and bytes in the store when the stage has ended; *records*: bytes of its manifests and done-markers;
- *read*, *written*: bytes of system calls (`rchar` and `wchar` of /proc/self/io): what is mapped is not among them;
- *put*, *get*, *head*, *list*, *delete*: calls of `vitalfew.storage.files` from outside, by what each is on an object
  store. A call is one at least: a large object is put in parts, and a table's columns are got one by one.
- *peak*: largest resident memory, bytes; *cpu*: seconds of all threads.

The tables have every figure per thousand passages or per passage, and its exponent (the slope of log(figure) against
log(passages) over the three largest sizes). Vectors of a real encoder are wider than those here, so that bytes of
`encode` and all of `index` but its calls are larger there. Files opened, and what 10^8 passages come to by
extrapolation: `git show faa64c5c:benchmarks/growth.py`.
"""

import argparse
import functools
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.common import machine, options, show
from vitalfew.configs.loading import build
from vitalfew.configs.schema import EncodeConfig, IndexCorpus
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially
from vitalfew.storage import files
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.usage import Family
from vitalfew.tasks.datasets.limits import SHARD_PASSAGES
from vitalfew.tasks.encoders.base import Encoded, LateEncoded, Spans
from vitalfew.tasks.models.ticks import Tick
from vitalfew.tasks.stage import Stage

ENCODER = "benchmarks.growth:Projection"
ENCODED_AT_ONCE = 4096
CHECK = "check"
"""The look of a second run whether there is anything to do; it is no stage."""
AROUND = "around"
"""The work of a run before, between and after its stages: plans, looks at finished artifacts, writes the catalog."""
REQUESTS = ("put", "get", "head", "list", "delete")
BY_SHARD = ("kept", "records", *REQUESTS)
"""Counts of a shard that do not depend on its rows."""
_BEGINNINGS = {
    "put": ("write_", "append_", "locked"),
    "get": ("read_", "map_", "OpenTable", "checksum", "checked", "has_checksum", "local"),
    "head": ("exists", "status", "is_folder", "is_writable", "is_locked"),
    "list": ("find", "folders", "statuses", "walk", "tree_bytes"),
    "delete": ("remove",),
}
COUNTS = ("kept", *REQUESTS)
counts: Counter[str] = Counter()


def request(name: str) -> str | None:
    """Return the request that a function of the seam makes of an object store, or None."""
    kinds = {
        beginning: kind for kind, names in _BEGINNINGS.items() for beginning in names if name.startswith(beginning)
    }
    return kinds[max(kinds, key=len)] if kinds else None


def watch() -> None:
    """Count from now on."""
    for name, function in [*vars(files).items()]:
        if callable(function) and (kind := request(name)):
            vars(files)[name] = _counted(kind, function)


def _counted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        counts[what] += 1
        return function(*arguments, **options)

    return wrapper


class Count:
    """Count within the block: `with Count(store) as count: ...`, then `count.total`."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.total: dict[str, float] = {}

    def __enter__(self) -> "Count":
        Family().reset_peak_memory()
        self.kept = _kept(self.store)
        self.before, self.moved, self.began = counts.copy(), _moved(), time.process_time()
        return self

    def __exit__(self, *error: Any) -> None:
        self.total["cpu"] = time.process_time() - self.began
        self.total |= {name: counts[name] - self.before[name] for name in REQUESTS}
        self.total |= {name: number - self.moved[name] for name, number in _moved().items()}
        self.total |= {name: number - self.kept[name] for name, number in _kept(self.store).items()}
        self.total["peak"] = Family().peak_memory()


def _moved() -> dict[str, int]:
    """Bytes that this process has read and written so far."""
    values = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {"read": int(values["rchar"]), "written": int(values["wchar"])}


def _kept(store: Path) -> dict[str, int]:
    """Files of the store, their bytes, and the bytes of manifests and markers. Nothing of it is counted."""
    total = {"kept": 0, "bytes": 0, "records": 0}
    for folder, _, names in os.walk(store):
        done = os.path.basename(folder) == "done"
        for name in names:
            size = os.lstat(os.path.join(folder, name)).st_size
            total["kept"] += 1
            total["bytes"] += size
            total["records"] += size if done or name in ("manifest.json", "stage.json") else 0
    return total


def parameters(size: int, store: Path, index: dict[str, Any], load: dict[str, Any]) -> IndexCorpus:
    """The index of so many generated passages; `index`, `load`: what is set of these sections."""
    given = {"store": store, "name": "growth", "datasets": [f"synthetic:passages={size},questions=0"]}
    sections = {"load": load, "index": index, "encode": {"encoder": ENCODER}, "bm25": {"enabled": False}}
    return build(IndexCorpus, {**given, **sections, "runner": "serial"})


def measure(given: IndexCorpus, tell: Callable[[str, dict[str, float]], Any]) -> None:
    """Make the index; `tell` is given each stage's name and counts when it has ended, and those of AROUND at last."""
    within: Counter[str] = Counter()

    def execute(stages: Sequence[Stage], run_id: str) -> list[Manifest]:
        manifests = []
        for stage in stages:
            manifest, total = _counted_run(stage, run_id)
            within.update(total)
            tell(stage.name, total)
            manifests.append(manifest)
        return manifests

    with Count(given.store) as whole:
        graph(given).run(execute)
    rest = {name: number - within[name] for name, number in whole.total.items() if name != "peak"}
    tell(AROUND, {**rest, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})


def _counted_run(stage: Stage, run_id: str) -> tuple[Manifest, dict[str, float]]:
    with Count(stage.store) as count:
        manifest = run_serially([stage], run_id)[0]
    # a shard's meter begins the peak anew
    metered = [*manifest.shards, *([manifest.preparation] if manifest.preparation else [])]
    count.total["peak"] = max(count.total["peak"], *(record.cost.peak_memory_bytes for record in metered))
    count.total["shards"] = len(manifest.shards)
    return manifest, count.total


def check(given: IndexCorpus) -> dict[str, float]:
    """Count a run that finds everything done, in a process that has not made it."""
    with Count(given.store) as count:
        assert graph(given).done()
    return count.total


class Projection:
    """An encoder that costs next to nothing: what is left to measure is the pipeline around it.

    A random projection of a text's counts of bytes, unit length: linear in the text, the same everywhere. Vectors of 32
    numbers are so small that ten million passages fit on a disk."""

    version: ClassVar[str] = "1"
    dimension = 32
    uses_gpu = False
    supports_late = False

    def __init__(self, options: EncodeConfig) -> None:
        self.matrix = np.random.default_rng(0).standard_normal((256, self.dimension)).astype(np.float32)

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version, "files": {}}

    def encode(self, texts: Sequence[str], tick: Tick = lambda tokens, share: None) -> Encoded:
        """float32 (n, dimension)."""
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), ENCODED_AT_ONCE):
            raw = [text.encode() for text in texts[start : start + ENCODED_AT_ONCE]]
            rows = np.repeat(np.arange(len(raw)), [len(text) for text in raw])
            cells = rows * 256 + np.frombuffer(b"".join(raw), np.uint8)
            counts = np.bincount(cells, minlength=256 * len(raw)).reshape(-1, 256).astype(np.float32)
            projected = np.log1p(counts) @ self.matrix
            vectors[start : start + len(raw)] = projected / np.linalg.norm(projected, axis=1, keepdims=True)
        tokens = sum(map(len, texts)) // 5
        tick(tokens, 1.0)
        return Encoded(vectors, tokens, 0)

    def encode_questions(self, texts: Sequence[str]) -> Encoded:
        return self.encode(texts)

    def encode_late(self, passages: Sequence[str], spans: Sequence[Spans], tick: Tick = ...) -> LateEncoded:  # type: ignore[assignment]
        raise NotImplementedError("this encoder has no token states")


RESULTS = Path("build/growth.json")
STORE = Path(os.environ.get("VITALFEW_GROWTH_STORE", "build/growth"))
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
LISTS = {10_000_000: 4096}
"""Lists of an IVF index, where the default number would take an hour or more of its own."""
STAGES = ("load", "split", "encode", "index")
BY_ROW = ("read", "written", "bytes", "cpu")
LIMIT = 1.05
"""The largest exponent of work that grows no faster than the corpus."""
LARGEST = 3
"""The sizes that a slope is of: small corpora have what is done once, whatever the size."""
Results = dict[str, dict[str, Any]]
"""By size, by stage: its figures."""
Points = Mapping[int, float]
"""A figure by the number of passages."""


def known() -> Results:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(size: int, name: str, value: Any) -> None:
    """Enter the figures of a stage in RESULTS."""
    results = known()
    results.setdefault(str(size), {})[name] = value
    RESULTS.parent.mkdir(exist_ok=True)
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1))
    temporary.replace(RESULTS)


def one(size: int, index: str, checking: bool) -> None:
    """One size, in this process."""
    watch()
    lists = {"nlist": LISTS[size]} if size in LISTS and index.startswith("ivf") else {}
    given = parameters(size, STORE, {"type": index, **lists}, {})
    if checking:
        keep(size, CHECK, check(given))
    else:
        measure(given, lambda stage, total: keep(size, stage, total))


def every(sizes: list[int], index: str) -> None:
    """Sizes that are not known yet, each in processes of its own."""
    for size in sizes:
        if CHECK in known().get(str(size), {}):
            continue
        shutil.rmtree(STORE, ignore_errors=True)
        for step in ("--measure", "--check"):
            command = [sys.executable, "-m", "benchmarks.growth", step, str(size), "--index", index]
            subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        shutil.rmtree(STORE, ignore_errors=True)


def exponent(figures: Points) -> float:
    """Return the slope of log(figure) against log(passages): least squares over the LARGEST sizes, equally weighted.

    Zeros are left out, since they have no logarithm; with less than two other figures the slope is 0.
    """
    pairs = [(math.log(size), math.log(value)) for size, value in sorted(figures.items())[-LARGEST:] if value > 0]
    return statistics.linear_regression(*zip(*pairs, strict=True)).slope if len(pairs) > 1 else 0.0


def points(results: Results, stage: str, name: str) -> dict[int, float]:
    """Return a figure of a stage by size."""
    return {int(size): stages[stage][name] for size, stages in results.items() if stage in stages}


def fitted(results: Results, stage: str, name: str) -> float:
    """Return the exponent of a figure; of a count by shard, as if every shard were full.

    The number of shards is a power of two: a shard is between half full and full, and ten times the corpus has eight or
    sixteen times the shards.
    """
    figures = points(results, stage, name)
    if name in BY_SHARD:
        shards = points(results, "load", "shards")
        figures = {size: value * size / SHARD_PASSAGES / shards[size] for size, value in figures.items()}
    return exponent(figures)


def counted(results: Results) -> Iterator[Sequence[str]]:
    """Yield a row of every stage and size: counts per thousand passages, CPU seconds too, bytes of a passage, and the
    peak of memory."""
    for stage in (*STAGES, AROUND, CHECK):
        for size in sorted(points(results, stage, "cpu")):
            figures = results[str(size)][stage]
            rare = (f"{1000 * figures[name] / size:.2f}" for name in (*COUNTS, "cpu"))
            weights = (f"{figures[name] / size:,.1f}" for name in ("read", "written", "bytes", "records"))
            yield stage, f"{size:,}", *rare, *weights, f"{figures['peak'] / 2**20:,.0f}"


def exponents(results: Results) -> Iterator[Sequence[str]]:
    for stage in (*STAGES, CHECK):
        slopes = [fitted(results, stage, name) for name in (*BY_SHARD, *BY_ROW, "peak")]
        yield stage, *(f"**{slope:.2f}**" if slope > LIMIT else f"{slope:.2f}" for slope in slopes)


def report(results: Results) -> None:
    print(f"Per thousand passages; bytes of a passage; peak memory; {machine()}\n")
    weights = ("CPU s", "read B", "written B", "kept B", "records B", "peak MiB")
    show(("stage", "passages", *COUNTS, *weights), counted(results))
    print(f"\nExponents; **above {LIMIT}**\n")
    show(("stage", *BY_SHARD, *BY_ROW, "peak"), exponents(results))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--index", default="ivf_pq")
    parser.add_argument("--report", action="store_true", help="report the known figures, and measure nothing")
    for step in ("measure", "check"):
        parser.add_argument(f"--{step}", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure or given.check:
        one(given.measure or given.check, given.index, bool(given.check))
        return
    if not given.report:
        every(given.sizes or list(SIZES), given.index)
    report(known())


if __name__ == "__main__":
    main()
