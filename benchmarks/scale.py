"""`make bench-scale`: memory and time from 10^4 to 10^6 generated passages, under Prefect and Ray as a user runs it.

The encoder is a random projection (benchmarks/projection.py), so that nothing hides what the pipeline itself takes. All
processes of a run are watched: the largest resident memory of each kind, and of Ray's workers by stage (the ledger).
Time is CPU time by stage, per thousand passages, so that other work on the machine weighs less.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

from vitalfew.storage.catalog.database import query
from vitalfew.storage.runs import read_runs

STORE = Path("build/scale")
SIZES = (10_000, 100_000, 1_000_000)
SETTINGS = ["--set", "encode.encoder=benchmarks.projection:Projection"]


def kind(process: psutil.Process) -> str:
    """What a process of a run is for."""
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
    """Seconds, and the largest resident memory (bytes) of any process of each kind."""
    peaks: dict[str, int] = {}
    began = time.perf_counter()
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    root = psutil.Process(running.pid)
    while running.poll() is None:
        for process in [root, *children(root)]:
            try:
                name, size = kind(process), process.memory_info().rss
            except psutil.Error:
                continue
            peaks[name] = max(peaks.get(name, 0), size)
        time.sleep(0.25)
    if running.returncode:
        sys.exit(f"{' '.join(command)} ended with {running.returncode}")
    return time.perf_counter() - began, peaks


def children(root: psutil.Process) -> list[psutil.Process]:
    try:
        return root.children(recursive=True)
    except psutil.Error:
        return []


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    os.environ.update(OMP_NUM_THREADS="1")
    print("| passages | stage | wall s | CPU s | CPU s / 1000 | peak MiB of a worker |\n|---|---|---|---|---|---|")
    notes = []
    for size in sizes:
        shutil.rmtree(STORE, ignore_errors=True)
        command = [
            sys.executable,
            "-m",
            "vitalfew.flows.cli",
            "index",
            f"synthetic:passages={size},questions=1000",
            *SETTINGS,
        ]
        seconds, peaks = watch([*command, "--name", "scale", "--store", str(STORE)])
        rows = query(
            STORE,
            "SELECT stage, date_diff('ms', min(started), max(started + to_milliseconds((wall_seconds * 1e3)::BIGINT)))"
            " / 1e3, sum(cpu_seconds), max(peak_memory_bytes) FROM costs GROUP BY 1 ORDER BY min(started)",
        ).fetchall()
        total = 0.0
        for stage, wall, cpu, peak in rows:
            total += cpu
            print(f"| {size:,} | {stage} | {wall:,.1f} | {cpu:,.1f} | {1000 * cpu / size:.3f} | {peak >> 20:,} |")
        print(f"| {size:,} | all | {seconds:,.1f} | {total:,.1f} | {1000 * total / size:.3f} | |", flush=True)
        assert read_runs(STORE)[-1].state == "completed"
        processes = ", ".join(f"{name} {peak >> 20:,}" for name, peak in sorted(peaks.items()))
        notes.append(f"{size:,} passages, largest process of each kind (MiB): {processes}")
    print("\n" + "\n".join(notes))
    shutil.rmtree(STORE, ignore_errors=True)


if __name__ == "__main__":
    main()
