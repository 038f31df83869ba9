"""The command line as a user runs it: `make bench-startup`, `make bench-runners`, `make bench-scale`.

    python -m benchmarks.commands startup
    python -m benchmarks.commands runners [ROUNDS]
    python -m benchmarks.commands scale [SIZE …]

*startup*: seconds and CPU seconds of a command, the best of three, beside its goal. The store is the index of 500
generated passages with all-MiniLM-L6-v2, made first if it is not there. A first round, which is not counted, brings the
libraries' files into memory.

*runners*: the same work in one process, on one Ray worker and on two. Encoding with all-MiniLM-L6-v2 in float32 or
bf16, as the machine has it, of generated passages. Start-up (Prefect's server, Ray) is left out: the time is from the
first shard's beginning to the last one's end, with the start of the stages' workers in between. Each runner is measured
as often as ROUNDS says, in turn, and the best counts.

*scale*: memory and time from 10^4 to 10^6 generated passages, under Prefect and Ray. The encoder is a random projection
(benchmarks/projection.py), so that nothing hides what the pipeline itself takes. All processes of a run are watched:
the largest resident memory of each kind, and of Ray's workers by stage (the ledger). Time is CPU time by stage, per
thousand passages, so that other work on the machine weighs less.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from benchmarks.common import SPAN, VITALFEW, clock_and_cpu, in_turns, machine, options, show
from vitalfew.storage.catalog.database import query
from vitalfew.storage.runs import read_runs

STARTUP = Path("build/startup")
STARTUP_CORPUS = ("synthetic:passages=500,questions=50", "--set", "bm25.enabled=true", "--store", str(STARTUP))
INDEX = ("index", *STARTUP_CORPUS, "--name", "demo", "--runner", "serial")
INSIDE = ("--store", str(STARTUP))
ROUNDS = 3
COMMANDS: tuple[tuple[float | None, tuple[str, ...]], ...] = (
    (1, ("--version",)),
    (1, ("--help",)),
    (1, ("methods",)),
    (1, ("methods", "minilm")),
    (1, ("datasets",)),
    (1, ("models",)),
    (1, ("tables", *INSIDE)),
    (1, ("sql", "SELECT count(*) FROM passages", *INSIDE)),
    (1, ("runs", *INSIDE)),
    (1, ("costs", *INSIDE)),
    (1, ("store", "ls", *INSIDE)),
    (4, ("search", "When was the observatory opened?", "--index", "demo", *INSIDE)),
    (None, INDEX),
)
"""Goals in seconds, and commands."""


def startup() -> None:
    def run(arguments: tuple[str, ...]) -> tuple[float, float]:
        return clock_and_cpu(lambda: subprocess.run([*VITALFEW, *arguments], check=True, capture_output=True))

    def rows() -> Iterator[Sequence[str]]:
        for goal, arguments in COMMANDS:
            [times] = in_turns(ROUNDS, partial(run, arguments), warm_up=1)
            seconds, used = map(min, zip(*times, strict=True))
            words = [word for word in arguments if word not in INSIDE]
            yield f"`vitalfew {' '.join(words)}`", f"< {goal:g}" if goal else "", f"{seconds:.2f}", f"{used:.2f}"

    run(INDEX)
    show(["command", "goal", "seconds", "CPU seconds"], rows())


RUNNERS_STORE = Path("build/runners")
RUNNERS_CORPUS = "synthetic:passages=3000,questions=100,seed=1"
RAY = ["--runner", "ray", "--workers"]
RUNNERS = {"serial": ["--runner", "serial"], "ray, 1 worker": [*RAY, "1"], "ray, 2 workers": [*RAY, "2"]}


def measure(options: list[str]) -> tuple[float, float]:
    """Return the seconds of the whole, and of the stage encode alone."""
    shutil.rmtree(RUNNERS_STORE, ignore_errors=True)
    command = [*VITALFEW, "index", RUNNERS_CORPUS, "--name", "bench", "--store", str(RUNNERS_STORE), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ((whole,),) = query(RUNNERS_STORE, f"SELECT {SPAN} FROM costs").fetchall()
    ((encode,),) = query(RUNNERS_STORE, f"SELECT {SPAN} FROM costs WHERE stage = 'encode'").fetchall()
    return float(whole), float(encode)


def runners(rounds: int) -> None:
    times = in_turns(rounds, *(partial(measure, each) for each in RUNNERS.values()))
    best = dict(zip(RUNNERS, map(min, times), strict=True))
    serial, one, two = best.values()
    rows = ((name, f"{whole:.1f}", f"{encode:.1f}") for name, (whole, encode) in best.items())
    show(["runner", "all stages s", "encode s"], rows)
    print(f"\nPrefect and Ray add {one[0] / serial[0] - 1:.1%}; two workers are {one[0] / two[0]:.2f} times one")
    print(f"(encode alone: {one[1] / serial[1] - 1:.1%}; {one[1] / two[1]:.2f} times)")
    shutil.rmtree(RUNNERS_STORE, ignore_errors=True)


SCALE_STORE = Path("build/scale")
SIZES = (10_000, 100_000, 1_000_000)
SETTINGS = ["--set", "encode.encoder=benchmarks.projection:Projection"]


def kind(process: psutil.Process) -> str:
    """Name the purpose of a process of a run."""
    line = " ".join(process.cmdline())
    for mark, name in (
        ("vitalfew.flows.cli.main", "driver"),
        ("prefect", "prefect server"),
        ("ray::Worker", "worker"),
        ("ray::Counter", "counter"),
        ("raylet", "raylet"),
        ("gcs_server", "gcs"),
    ):
        if mark in line:
            return name
    return "other"


def watch(command: list[str]) -> tuple[float, dict[str, int]]:
    """Run a command; return its seconds, and the largest resident memory (bytes) of any process by kind."""
    peaks: dict[str, int] = {}
    began = time.perf_counter()
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    root = psutil.Process(running.pid)
    while running.poll() is None:
        with suppress(psutil.Error):
            for process in [root, *root.children(recursive=True)]:
                with suppress(psutil.Error):
                    name, size = kind(process), process.memory_info().rss
                    peaks[name] = max(peaks.get(name, 0), size)
        time.sleep(0.25)
    if running.returncode:
        sys.exit(f"{' '.join(command)} ended with {running.returncode}")
    return time.perf_counter() - began, peaks


STAGES = f"SELECT stage, {SPAN}, sum(cpu_seconds), max(peak_memory_bytes) FROM costs GROUP BY 1 ORDER BY min(started)"


def scale(sizes: list[int]) -> None:
    notes = []

    def rows() -> Iterator[Sequence[str]]:
        for size in sizes:
            shutil.rmtree(SCALE_STORE, ignore_errors=True)
            command = [*VITALFEW, "index", f"synthetic:passages={size},questions=1000", *SETTINGS]
            seconds, peaks = watch([*command, "--name", "scale", "--store", str(SCALE_STORE)])
            stages = query(SCALE_STORE, STAGES).fetchall()
            whole = ("all", seconds, sum(cpu for _, _, cpu, _ in stages), None)
            for stage, wall, cpu, peak in [*stages, whole]:
                memory = "" if peak is None else f"{peak >> 20:,}"
                yield f"{size:,}", stage, f"{wall:,.1f}", f"{cpu:,.1f}", f"{1000 * cpu / size:.3f}", memory
            assert read_runs(SCALE_STORE)[-1].state == "completed"
            processes = ", ".join(f"{name} {peak >> 20:,}" for name, peak in sorted(peaks.items()))
            notes.append(f"{size:,} passages, largest process of each kind (MiB): {processes}")

    show(["passages", "stage", "wall s", "CPU s", "CPU s / 1000", "peak MiB of a worker"], rows())
    print("\n" + "\n".join(notes))
    shutil.rmtree(SCALE_STORE, ignore_errors=True)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("what", choices=("startup", "runners", "scale"))
    parser.add_argument("numbers", nargs="*", type=int, metavar="ROUNDS or SIZE")
    given = parser.parse_args()
    print(machine())
    if given.what == "startup":
        startup()
        return
    os.environ.update(OMP_NUM_THREADS="1")
    if given.what == "runners":
        runners(*given.numbers[:1] or [2])
    else:
        scale(given.numbers or list(SIZES))


if __name__ == "__main__":
    main()
