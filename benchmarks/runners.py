"""`make bench-runners`: the same work in one process, on one Ray worker and on two.

Encoding with all-MiniLM-L6-v2 in float32 or bf16, as the machine has it, of generated passages. Start-up (Prefect's
server, Ray) is left out: the time is from the first shard's beginning to the last one's end, with the start of the
stages' workers in between. Each runner is measured as often as `rounds` says, in turn, and the best counts.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from vitalfew.storage.catalog.database import query

STORE = Path("build/runners")
CORPUS = "synthetic:passages=3000,questions=100,seed=1"
RUNNERS = {"serial": ["--runner", "serial"], "ray, 1 worker": ["--workers", "1"], "ray, 2 workers": ["--workers", "2"]}


def measure(options: list[str]) -> tuple[float, float]:
    """Seconds of the whole, and of the stage encode alone."""
    shutil.rmtree(STORE, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "vitalfew.flows.cli",
        "index",
        CORPUS,
        "--name",
        "bench",
        "--store",
        str(STORE),
        *options,
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    span = "date_diff('ms', min(started), max(started + to_milliseconds((wall_seconds * 1e3)::BIGINT))) / 1e3"
    ((whole,),) = query(STORE, f"SELECT {span} FROM costs").fetchall()
    ((encode,),) = query(STORE, f"SELECT {span} FROM costs WHERE stage = 'encode'").fetchall()
    return float(whole), float(encode)


def main() -> None:
    os.environ.update(OMP_NUM_THREADS="1")
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    best: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for name, options in RUNNERS.items():
            best[name] = min(best.get(name, (1e9, 1e9)), measure(options))
            print(f"{name}: {best[name][0]:.1f} s, encode {best[name][1]:.1f} s", file=sys.stderr, flush=True)
    serial, one, two = (best[name] for name in RUNNERS)
    print("| runner | all stages s | encode s |\n|---|---|---|")
    for name, (whole, encode) in best.items():
        print(f"| {name} | {whole:.1f} | {encode:.1f} |")
    print(f"\nPrefect and Ray add {one[0] / serial[0] - 1:.1%}; two workers are {one[0] / two[0]:.2f} times one")
    print(f"(encode alone: {one[1] / serial[1] - 1:.1%}; {one[1] / two[1]:.2f} times)")
    shutil.rmtree(STORE, ignore_errors=True)


if __name__ == "__main__":
    main()
