"""The measurements that benchmarks/growth.py makes once, whatever the sizes: rates of an index at real widths, and the
catalog.

Rates: how fast one core trains, fills and searches an IVF-PQ index. The stand-in encoder's vectors are too short to say
what an index of real ones takes: MiniLM's have 384 numbers, and a dual index's 768. So the pieces of its work are
measured at these widths, on as few vectors as show the rate, and put together for any number of rows and lists
(benchmarks/growth_report.py).

Catalog: `vitalfew sql` on a store whose manifests are as large as those of 10^8 passages. The manifests, the table of
shards beside each and the ledger are written by the product (`Artifact.complete`, `Artifact.add_costs`), with SHARDS
shards in every table. Of the shards themselves only one tiny Parquet file a table is written, and all shards are hard
links to it: the catalog looks at every file's size, and no query here reads a row. Done-markers are left out: no
command of this page opens one of a complete artifact.

    python -m benchmarks.growth_machine [SHARDS]    the catalog alone
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import faiss
import numpy as np
import psutil

from benchmarks.common import VITALFEW, clock_and_cpu, complete, cpu, options
from benchmarks.growth_report import Rates
from benchmarks.index_types import Clusters
from vitalfew.storage import files, schemas, version
from vitalfew.storage.artifacts import Artifact, File, ShardRecord, fingerprint
from vitalfew.storage.catalog.database import build
from vitalfew.storage.costs import Cost
from vitalfew.storage.indexes import faiss_shards
from vitalfew.storage.indexes.recall import PROBES
from vitalfew.storage.manifests import read_manifest
from vitalfew.storage.runs import INDEXING, NamedIndex, recorded_run, save_index

WIDTHS = {"fused": 384, "dual": 768}
VECTORS, CENTRES, LISTS, QUERIES, K = 65_536, 32_768, 64, 64, 10
INNER = faiss.METRIC_INNER_PRODUCT


def seconds(action: Callable[[], Any], rounds: int = 3) -> float:
    """Return the CPU seconds of the fastest round."""
    return min(cpu(action) for _ in range(rounds))


class Filled:
    """An IVF-PQ index whose lists are long (or have one code each), and queries with the lists nearest to them."""

    def __init__(self, width: int, vectors: np.ndarray, queries: np.ndarray, times: int) -> None:
        """`times`: how often the vectors are added; 0 adds one to a list."""
        self.queries = queries
        self.quantizer = faiss.IndexFlatIP(width)
        self.quantizer.add(vectors[:LISTS])
        self.index = faiss.IndexIVFPQ(self.quantizer, width, LISTS, width // 4, 8, INNER)
        self.index.pq.cp.min_points_per_centroid = 1
        self.index.train(vectors[:8192])
        self.lists = self.quantizer.search(vectors, 1)[1][:, 0].copy() if times else np.arange(LISTS)
        for _ in range(times):
            self.add(vectors)
        if not times:
            self.add(vectors[:LISTS])

    def add(self, vectors: np.ndarray) -> None:
        """Into lists that are known already."""
        ids = np.arange(len(vectors))
        pointers = [faiss.swig_ptr(array) for array in (vectors, ids, self.lists)]
        self.index.add_core(len(vectors), *pointers)

    def search(self, count: int) -> tuple[float, float]:
        """Seconds of a query, and codes that it looks at, in so many lists."""
        scores, numbers = self.quantizer.search(self.queries, count)
        sizes = np.array([self.index.invlists.list_size(number) for number in range(LISTS)])
        self.index.nprobe = count

        def one_by_one() -> None:
            for query in range(QUERIES):
                part = slice(query, query + 1)
                self.index.search_preassigned(self.queries[part], K, numbers[part].copy(), scores[part].copy())

        return seconds(one_by_one) / QUERIES, float(sizes[numbers].sum() / QUERIES)


def rates(width: int) -> Rates:
    """All of one width."""
    clusters = Clusters(width)
    vectors = np.concatenate([clusters.draw(number, 16_384) for number in range(VECTORS // 16_384)])
    centres = faiss.IndexFlatIP(width)
    centres.add(np.concatenate([clusters.draw(100 + number, 16_384) for number in range(CENTRES // 16_384)]))
    some, queries = vectors[:4096], clusters.draw(10**6, PROBES)
    filled = Filled(width, vectors, queries[:QUERIES], 8)
    empty = Filled(width, vectors, queries[:QUERIES], 0)
    (long, codes), (none, _), (visits, _) = filled.search(LISTS // 2), empty.search(1), empty.search(LISTS)
    visit = max(0.0, visits - none) / (LISTS - 1)
    own = [query[None] for query in queries[:20]]
    return Rates(
        width,
        product=seconds(lambda: centres.search(some, 1)) / (len(some) * CENTRES * width),
        encode=seconds(lambda: filled.add(vectors), 1) / VECTORS,
        scan=(long - none - LISTS // 2 * visit) / codes,
        probe=seconds(lambda: faiss.knn(queries, vectors, K + 1, metric=INNER)) / VECTORS,
        coarse=seconds(lambda: [centres.search(query, LISTS) for query in own]) / (len(own) * CENTRES * width),
        shard=none,
        visit=visit,
    )


def opened(folder: Path, rows: int = 2_000_000) -> dict[str, float]:
    """Seconds and bytes of memory per vector to open a shard, as a search does: its ids are read. `checksum`: seconds
    per byte to compare it with its checksum, once on a machine."""
    width = 64
    vectors = Clusters(width).draw(0, 16_384)
    template = faiss.index_factory(width, "IVF64,PQ16x8", INNER)
    template.train(vectors)
    batches = (vectors for _ in range(-(-rows // len(vectors))))
    count = -(-rows // len(vectors)) * len(vectors)
    path = folder / "opened.faiss"
    faiss_shards.build(path, template, np.arange(count), batches)
    before, began = psutil.Process().memory_info().rss, time.process_time()
    shard = faiss_shards.FaissShard(path)
    assert len(shard.ids) == count
    taken, more = time.process_time() - began, psutil.Process().memory_info().rss - before
    checking = seconds(lambda: files.checksum(path)) / path.stat().st_size
    path.unlink()
    return {"seconds": taken / count, "bytes": more / count, "checksum": checking}


def measure_rates(tell: Callable[[str, Any], Any], folder: Path) -> None:
    for layout, width in WIDTHS.items():
        tell(layout, asdict(rates(width)))
    tell("open", opened(folder))


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
    """Write a complete artifact of so many shards."""
    made = Artifact(STORE, STAGES[stage][0], fingerprint(stage=stage))
    firsts = [_first(made, table) for table in STAGES[stage]]
    cost = Cost(datetime.now(UTC).isoformat(), 10**6, 17.25, 16.75, 0.0, 1 << 29, usd=1.25e-4)
    records = [
        ShardRecord(shard, run, [_link(made, shard, file) for file in firsts], 4096, cost, {"first": shard})
        for shard in range(shards)
    ]
    complete(made, stage, records, {table: shards for table in STAGES[stage]})
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
    version.mark(STORE)
    with recorded_run(STORE, INDEXING, "growth", {}, []) as run:
        made = [artifact(stage, run.run_id, shards) for stage in STAGES]
        roles = {one.table: one.name for one in made}
        save_index(STORE, NamedIndex("growth", run.run_id, roles, {}, generation=1, reached=1))
        return made


def vitalfew(*arguments: str) -> None:
    subprocess.run([*VITALFEW, *arguments, "--store", str(STORE)], check=True, capture_output=True)


def figures(shards: int, tell: Callable[[str, Any], Any]) -> None:
    """Make the store and time what reads its manifests."""
    artifacts = make(shards)
    tell("shards", shards)
    tell("manifest bytes", sum(_bytes(one.directory) for one in artifacts))
    for what, action in _actions(artifacts).items():
        tell(what, min(clock_and_cpu(action) for _ in range(ROUNDS)))
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
    parser = options(__doc__)
    parser.add_argument("shards", nargs="?", type=int, default=25_000, help="shards of a table; 25,000")
    figures(parser.parse_args().shards, lambda what, value: print(what, value, flush=True))


if __name__ == "__main__":
    main()
