"""`vitalfew sql` on a store whose manifests are as large as those of 10^8 passages.

    python -m benchmarks.growth_catalog [SHARDS]

The manifests, the table of shards beside each and the ledger are written by the product (`Artifact.complete`,
`Artifact.add_costs`), with SHARDS shards in every table. Of the shards themselves only one tiny Parquet file a table is
written, and all shards are hard links to it: the catalog looks at every file's size, and no query here reads a row.
Done-markers are left out: no command of this page opens one of a complete artifact.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact, File, Manifest, ShardRecord, fingerprint
from vitalfew.storage.catalog.database import build
from vitalfew.storage.costs import Cost
from vitalfew.storage.manifests import read_manifest
from vitalfew.storage.runs import recorded_run

STORE = Path(os.environ.get("VITALFEW_GROWTH_STORE", "build/growth")).with_name("growth-catalog")
WIDTH = 32
STAGES = {
    "load": ("passages", "questions", "rejects"),
    "split": ("sentences",),
    "encode": ("vectors",),
    "index": ("faiss", "neighbours"),
}
"""By stage, the tables of which it has a file a shard; the first one has its manifest."""
SUFFIX = {"faiss": "sentence.faiss"}
ROUNDS = 3
COUNT = "SELECT count(*) FROM artifacts"


def artifact(stage: str, run: str, shards: int) -> Artifact:
    """A complete artifact of so many shards, its ledger and all."""
    made = Artifact(STORE, STAGES[stage][0], fingerprint(stage=stage))
    firsts = [_first(made, table) for table in STAGES[stage]]
    cost = Cost(datetime.now(UTC).isoformat(), 10**6, 17.25, 16.75, 0.0, 1 << 29, usd=1.25e-4)
    records = [
        ShardRecord(shard, run, [_link(made, shard, file) for file in firsts], 4096, cost, {"first": shard})
        for shard in range(shards)
    ]
    made.add_costs(stage, None, records)
    about = {"version": "1", "artifact": made.name, "inputs": {}, "config": {}, "method": {}, "code_version": "bench"}
    rows = {table: shards for table in STAGES[stage]}
    done = datetime.now(UTC).isoformat()
    made.complete(Manifest(stage, completed=done, rows_in=shards, rows=rows, shards=records, **about))
    return made


def _first(made: Artifact, table: str) -> File:
    """Shard 0 of a table, with no row."""
    if table == "faiss":
        path = made.path(0, suffix=SUFFIX[table])
        files.write_bytes(path, b"no index")
        return made.describe(path, table, 0)
    schema = schemas.vectors(WIDTH) if table == "vectors" else schemas.TABLES[table]
    return made.write(0, table, schema.empty_table())


def _link(made: Artifact, shard: int, first: File) -> File:
    """The same file as another shard's, with a checksum of its own, as the shards of a corpus have."""
    path = made.path(shard, first.table, SUFFIX.get(first.table, "parquet"))
    if shard:
        os.link(STORE / first.path, path)
    name = str(path.relative_to(STORE))
    return replace(first, path=name, checksum=blake2b(name.encode(), digest_size=16).hexdigest())


def make(shards: int) -> list[Artifact]:
    shutil.rmtree(STORE, ignore_errors=True)
    with recorded_run(STORE, "index_corpus", "growth", {}, []) as run:
        return [artifact(stage, run.run_id, shards) for stage in STAGES]


def timed(action: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock and of CPU time, of this process and those that it waited for."""
    began, used = time.perf_counter(), _cpu()
    action()
    return time.perf_counter() - began, _cpu() - used


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def vitalfew(*arguments: str) -> None:
    command = [sys.executable, "-m", "vitalfew.flows.cli", *arguments, "--store", str(STORE)]
    subprocess.run(command, check=True, capture_output=True)


def figures(shards: int, tell: Callable[[str, Any], Any]) -> None:
    """Make the store and time what reads its manifests."""
    artifacts = make(shards)
    tell("shards", shards)
    tell("manifest bytes", sum(_bytes(one.directory) for one in artifacts))
    for what, action in _actions(artifacts).items():
        tell(what, min(timed(action) for _ in range(ROUNDS)))
    tell("catalog bytes", (STORE / "catalog.duckdb").stat().st_size)
    shutil.rmtree(STORE)


def _actions(artifacts: Sequence[Artifact]) -> dict[str, Callable[[], Any]]:
    return {
        "read the four manifests": lambda: [read_manifest(one.directory) for one in artifacts],
        "build the catalog": lambda: build(STORE),
        f"vitalfew sql '{COUNT}'": lambda: vitalfew("sql", COUNT),
        "vitalfew sql 'SELECT count(*) FROM passages'": lambda: vitalfew("sql", "SELECT count(*) FROM passages"),
        "vitalfew runs": lambda: vitalfew("runs"),
    }


def _bytes(directory: Path) -> int:
    names = ("manifest.json", "done/shards.parquet")
    return sum((directory / name).stat().st_size for name in names)


def main() -> None:
    figures(int(sys.argv[1]) if len(sys.argv) > 1 else 25_000, lambda what, value: print(what, value, flush=True))


if __name__ == "__main__":
    main()
