"""Flipped bits in the files of an index, whose size and date stay the same: an error that says so, or the same hits."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.indexing import index, reused
from tests.support.shared import indexed
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.storage.files import Damaged, checksums
from vitalfew.storage.indexes import units
from vitalfew.tasks.retrieve import Searcher

SETTINGS = {"index": {"type": "ivf_sq8"}, "load": {"shard_passages": 30}, "bm25": {"enabled": True}}
REQUESTS: list[dict[str, Any]] = [
    {"retriever": "core_context"},
    {"retriever": "passage"},
    {"retriever": "bm25", "unit": "passage"},
    {"retriever": "hybrid"},
]
TABLES = ("faiss", "index_quality", "bm25", "passages", "sentences", "vectors")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(indexed(**SETTINGS), tmp_path_factory.mktemp("damaged") / "store"))


def hits(store: Path) -> list[list[tuple[int, float, str]]]:
    """As a new process finds them."""
    for cache in (checksums._memory, units._parquet, units._ids, units._outline):
        cache.cache_clear()
    searcher = Searcher.named(store, "test")
    asked = [RetrieveConfig(**request, top_k=60) for request in REQUESTS]
    return [[(hit.unit_id, hit.score, hit.passage) for hit in searcher.hits("Who built it?", each)] for each in asked]


def flip(path: Path, byte: int, bit: int) -> None:
    """The same again sets it back."""
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << bit
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.usefixtures("cache")
def test_no_flipped_bit_changes_a_search_silently(store: Path) -> None:
    """A random bit of every file that a search may open, on a machine that has read none of them."""
    chance = random.Random(13)
    before = hits(store)
    seen = {table: 0 for table in TABLES}
    for path in sorted(path for table in TABLES for path in store.glob(f"{table}/*/*.*")):
        if path.suffix == ".json":
            continue
        byte, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
        flip(path, byte, bit)
        found, error = None, ""
        try:
            found = hits(store)
        except Damaged as damage:
            error = str(damage)
            seen[path.parts[-3]] += 1
        flip(path, byte, bit)
        assert found == before or (f"{path} is damaged" in error and "`vitalfew store verify`" in error), (path, byte)
    assert all(seen.values()), seen
    assert hits(store) == before


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("pattern", ["faiss/*/00000.sentence.faiss", "bm25/*/00001.passage.data.npy"])
def test_damage_that_a_search_has_seen_is_mended_by_the_same_index(tmp_path: Path, pattern: str) -> None:
    store = Path(shutil.copytree(indexed(**SETTINGS), tmp_path / "store"))
    before = hits(store)
    (path,) = store.glob(pattern)
    flip(path, path.stat().st_size // 2, 0)
    with pytest.raises(Damaged):
        hits(store)
    assert path.parts[-3].replace("faiss", "index") not in reused(index(store, **SETTINGS))
    assert hits(store) == before
