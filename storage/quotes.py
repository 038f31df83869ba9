"""Quotes: what a stage was expected to take, kept beside the ledger so that SQL sets the two side by side."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from vitalfew.storage import files, schemas


@dataclass(frozen=True)
class Quote:
    """One stage's quote. Units as in `schemas.QUOTES`; `fingerprint` is that of the artifact it is for."""

    fingerprint: str
    stage: str
    runner: str
    workers: int
    rows: int
    tokens: int
    wall_seconds: float
    cpu_seconds: float
    gpu_seconds: float
    peak_memory_bytes: int
    disk_bytes: int
    usd: float


def save(store: Path, quotes: list[Quote]) -> None:
    """Keep quotes, each in the place of an earlier one for the same artifact."""
    now = datetime.now(UTC)
    for quote in quotes:
        row = {**vars(quote), "quoted": now}
        del row["fingerprint"]
        files.write_table(_path(store, quote.fingerprint), pa.Table.from_pylist([row], schemas.QUOTES))


def find(store: Path, fingerprint: str) -> Quote | None:
    """The quote for an artifact, if one was asked for."""
    path = _path(store, fingerprint)
    if not files.exists(path):
        return None
    (row,) = files.read_table(path).to_pylist()
    del row["quoted"]
    return Quote(fingerprint=fingerprint, **row)


def _path(store: Path, fingerprint: str) -> Path:
    return store / "quotes" / fingerprint / "00000.parquet"
