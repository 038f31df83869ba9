"""`make bench-growth`: work that may grow no faster than the corpus, counted per thousand passages.

The index of 10^4 and 10^5 generated passages is built in one process each, at default settings; of larger corpora
(`python -m benchmarks.growth 1000000`) only `load` and `split` are done. The encoder is a random projection
(benchmarks/projection.py). Counted are

- files of the store that are opened: by Python (the audit hook `open`, which also sees the flush of every file and
  folder written), and by libraries, which get a path from `storage.files.local`;
- bytes read and written by system calls (`rchar` and `wchar` of /proc/self/io): what is mapped is not among them;
- records (JSON) of the store that are parsed.

`check` is the look of a second run whether there is anything to do.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from configs.loading import build
from configs.schema import IndexCorpus
from flows.pipelines.graph import graph
from flows.pipelines.run import run_serially
from storage.files import arrays, records, tables

STORE = Path("build/growth")
SIZES = (10_000, 100_000)
WHOLE = 100_000
"""The largest corpus that is encoded and indexed too."""
ENCODER = "benchmarks.projection:Projection"

counts: Counter[str] = Counter()


def watch(store: Path) -> None:
    """Count from now on."""
    inside = f"{store.absolute()}/"

    def opened(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not isinstance(arguments[0], int):
            counts["files opened"] += os.path.abspath(os.fsdecode(arguments[0])).startswith(inside)

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            counts[name] += 1
            return function(*arguments, **options)

        return wrapper

    sys.addaudithook(opened)
    for module in (tables, arrays):
        vars(module)["local"] = counted("files opened", module.local)
    vars(records)["read_json"] = counted("records parsed", records.read_json)


def moved() -> dict[str, int]:
    """Bytes that this process has read and written so far."""
    values = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {"bytes read": int(values["rchar"]), "bytes written": int(values["wchar"])}


def measure(size: int, store: Path, **load: int) -> dict[str, dict[str, float]]:
    """By stage, what was counted per thousand passages. `load`: settings of this section."""
    source = f"synthetic:passages={size},questions=0"
    given = {"store": store, "name": "growth", "datasets": [source], "runner": "serial", "load": load}
    plan = graph(build(IndexCorpus, {**given, "encode": {"encoder": ENCODER}}))
    stages = plan.stages if size <= WHOLE else plan.stages[:2]
    result = {}
    for stage in stages:
        before, moved_before = counts.copy(), moved()
        run_serially([stage], "growth")
        result[stage.name] = _since(before, moved_before, size)
    before, moved_before = counts.copy(), moved()
    if size <= WHOLE:
        assert graph(plan.parameters).done()
        result["check"] = _since(before, moved_before, size)
    return result


def _since(before: Counter[str], moved_before: dict[str, int], size: int) -> dict[str, float]:
    more = {name: counts[name] - before[name] for name in ("files opened", "records parsed")}
    more |= {name: bytes_now - moved_before[name] for name, bytes_now in moved().items()}
    return {name: 1000 * count / size for name, count in more.items()}


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        watch(STORE)
        print(json.dumps(measure(int(sys.argv[2]), STORE)))
        return
    print("| passages | stage | files opened | records parsed | MB read | MB written |\n|---|---|---|---|---|---|")
    for size in [int(size) for size in sys.argv[1:]] or SIZES:
        shutil.rmtree(STORE, ignore_errors=True)
        command = [sys.executable, "-m", "benchmarks.growth", "--measure", str(size)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        for stage, per in json.loads(done.stdout.splitlines()[-1]).items():
            numbers = [per["files opened"], per["records parsed"], per["bytes read"] / 1e6, per["bytes written"] / 1e6]
            print(f"| {size:,} | {stage} | " + " | ".join(f"{number:.2f}" for number in numbers) + " |", flush=True)
    shutil.rmtree(STORE, ignore_errors=True)


if __name__ == "__main__":
    main()
