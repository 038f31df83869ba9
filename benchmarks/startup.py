"""`make bench-startup`: seconds and CPU seconds that each command takes, the best of three, beside its goal.

The store is the index of 500 generated passages with all-MiniLM-L6-v2, made first if it is not there. A first round,
which is not counted, brings the libraries' files into memory.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path

STORE = Path("build/startup")
CORPUS = ("synthetic:passages=500,questions=50", "--set", "bm25.enabled=true", "--store", str(STORE))
INDEX = ("index", *CORPUS, "--name", "demo", "--runner", "serial")
INSIDE = ("--store", str(STORE))
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


def seconds(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Of one call, by the clock and of CPU time. Raises CalledProcessError."""
    began, used = time.perf_counter(), _cpu()
    subprocess.run([sys.executable, "-m", "vitalfew.flows.cli", *arguments], check=True, capture_output=True)
    return time.perf_counter() - began, _cpu() - used


def _cpu() -> float:
    """CPU seconds of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    seconds(INDEX)
    print("| command | goal | seconds | CPU seconds |\n|---|---|---|---|")
    for goal, arguments in COMMANDS:
        clock, cpu = map(min, zip(*[seconds(arguments) for _ in range(1 + ROUNDS)][1:], strict=True))
        words = [word for word in arguments if word not in INSIDE]
        print(
            f"| `vitalfew {' '.join(words)}` | {f'< {goal:g}' if goal else ''} | {clock:.2f} | {cpu:.2f} |", flush=True
        )


if __name__ == "__main__":
    main()
