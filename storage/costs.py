"""The ledger: what a shard of work took, and what that costs."""

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from storage import schemas
from storage.parquet import write_table

PRICES = Path(__file__).parent.parent / "configs" / "prices.yaml"
_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


@dataclass
class Cost:
    """What one shard of one stage took. Units as in `schemas.COSTS`."""

    started: str = ""
    tokens: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    usd: float = 0.0


class Meter:
    """Measures the block it encloses: `with Meter() as meter: ...`, then `meter.cost`."""

    def __init__(self, num_gpus: float = 0.0) -> None:
        """`num_gpus`: the share of a GPU that is taken."""
        self.cost = Cost()
        self._num_gpus = num_gpus

    def __enter__(self) -> Self:
        _reset_peak_memory()
        self.cost.started = datetime.now(UTC).isoformat()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        cost = self.cost
        cost.wall_seconds = time.perf_counter() - self._wall
        cost.cpu_seconds = time.process_time() - self._cpu
        cost.gpu_seconds = cost.wall_seconds * self._num_gpus
        cost.peak_memory_bytes = peak_memory()
        cost.usd = charge(cost.cpu_seconds, cost.gpu_seconds, cost.tokens)


def charge(cpu_seconds: float, gpu_seconds: float, tokens: float) -> float:
    """USD at the prices of configs/prices.yaml."""
    prices = read_prices()
    hours = cpu_seconds * prices["cpu_core_hour"] + gpu_seconds * prices["gpu_hour"]
    return hours / 3600 + tokens * prices["million_tokens"] / 1e6


def write_ledger(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Enter rows of `schemas.COSTS`; rows that are there for other shards or other runs stay."""
    paid = {(row["shard"], row["run_id"]) for row in rows}
    before = [row for row in _ledger(path) if (row["shard"], row["run_id"]) not in paid]
    write_table(path, pa.Table.from_pylist([*before, *rows], schemas.COSTS))


def _ledger(path: Path) -> list[dict[str, Any]]:
    try:
        return pq.read_table(path).to_pylist() if path.exists() else []
    except (pa.ArrowInvalid, OSError):  # damaged: what it said is lost, what is being paid now is not
        return []


@cache
def read_prices() -> dict[str, float]:
    """USD per CPU-core hour, GPU hour and million tokens, from configs/prices.yaml."""
    content = yaml.safe_load(PRICES.read_text(encoding="utf-8"))
    return {name: float(content[name]) for name in ("cpu_core_hour", "gpu_hour", "million_tokens")}


def peak_memory() -> int:
    """Peak resident memory of this process in bytes: since the last reset on Linux, else since its start."""
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def _reset_peak_memory() -> None:
    # Linux resets the high-water mark on request; a sandbox may forbid it, and then the peak is the process's own.
    if _CLEAR_REFS.exists():
        try:
            _CLEAR_REFS.write_text("5")
        except OSError:
            return
