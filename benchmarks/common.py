"""The parts that the benchmarks share: options, corpus, machine, clocks, tables in Markdown, indexes and evaluations.

The corpus is real data if they are there, else the generated encyclopaedia. Nothing heavy is imported before a function
needs it, so that a benchmark can set its environment first.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.evaluate import Evaluated

T = TypeVar("T")

DATA = Path(os.environ.get("VITALFEW_DATA", "../shared/data"))
REAL = {
    "hotpotqa": DATA / "hotpotqa" / "hotpot_train_sample100.json",
    "titletext": DATA / "2wikimultihopqa" / "corpus.json",
    "squad": DATA / "squad" / "dev-v1.1.json",
}
NQ = DATA / "nq_gold" / "dev.jsonl"
VITALFEW = [sys.executable, "-m", "vitalfew.flows.cli"]
"""The command line, in this environment."""


def options(about: str | None, store: Path | None = None) -> argparse.ArgumentParser:
    """Return a parser whose help is a benchmark's docstring; with --store if a default for it is given."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if store:
        parser.add_argument("--store", type=Path, default=store, help=f"reused if it has what is needed; {store}")
    return parser


def specifications() -> tuple[str, ...]:
    """Return the dataset specifications of the benchmark corpus; $VITALFEW_BENCH names another one."""
    if "VITALFEW_BENCH" in os.environ:
        return tuple(os.environ["VITALFEW_BENCH"].split())
    if all(path.exists() for path in REAL.values()):
        return tuple(f"{name}:{path}" for name, path in REAL.items())
    return ("synthetic:passages=9000,questions=1500,seed=0",)


def describe() -> str:
    names = ", ".join(specifications())
    return names if names.startswith("synthetic") else f"{names} (real data)"


def machine() -> str:
    """Return the processor's name and the number of cores that this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{names[0] if names else platform.machine()}, {cores} core{'s' * (cores != 1)}"


def texts(kind: type) -> Iterator[str]:
    """Yield the texts of the passages or questions (`kind`) of the benchmark corpus."""
    from vitalfew.tasks.datasets.specification import parse_dataset

    for specification in specifications():
        for _, record in parse_dataset(specification)[1].records():
            if isinstance(record, kind):
                yield record.text  # type: ignore[attr-defined]


def held_out() -> list[str]:
    """Return the titles of the SQuAD articles that the embedded reader was not trained on, as the data set has them."""
    from vitalfew.tasks.models.weights import shipped

    lines = (shipped("reader") / "held_out.txt").read_text(encoding="utf-8").split("\n")
    return [title.replace("_", " ").strip() for title in lines if title.strip()]


def sql_list(names: Sequence[str]) -> str:
    """Return names as a list of SQL strings."""
    return "[" + ", ".join("'" + name.replace("'", "''") + "'" for name in names) + "]"


def one_core() -> None:
    """Bind this process, and those that it starts, to one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def clock(work: Callable[[], Any]) -> float:
    """Return the seconds that `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turns(rounds: int, *works: Callable[[], T], warm_up: int = 0) -> list[list[T]]:
    """Return what every work gives in each round.

    The works take turns, so that none has the quieter machine; the first `warm_up` rounds are not counted.
    """
    results = [[work() for work in works] for _ in range(warm_up + rounds)][warm_up:]
    return [list(of_work) for of_work in zip(*results, strict=True)]


def count_rows(rows: int) -> None:
    """Note that so many rows were computed, in the file that $VITALFEW_BENCH_COUNT names: a kill loses none of it."""
    with open(os.environ["VITALFEW_BENCH_COUNT"], "a") as file:
        file.write(f"{rows}\n")


def show(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown, every row as soon as it is there."""
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for cells in rows:
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def index(**settings: Any) -> Any:
    """Make an index with these settings (IndexCorpus), one stage after the other, and return its outcome."""
    from vitalfew.configs.loading import build
    from vitalfew.configs.schema import IndexCorpus
    from vitalfew.flows.pipelines.graph import graph
    from vitalfew.flows.pipelines.run import run_serially

    return graph(build(IndexCorpus, settings)).run(run_serially)


def evaluated(name: str, settings: dict[str, Any], store: Path, **given: Any) -> "Evaluated":
    """Run an experiment on a store, one stage after the other; `given` overrides `settings`."""
    from vitalfew.flows.pipelines.experiments import evaluation
    from vitalfew.flows.pipelines.graph import graph
    from vitalfew.flows.pipelines.run import run_serially

    return graph(evaluation(name, settings, {"store": store, "runner": "serial", **given})).run(run_serially)
