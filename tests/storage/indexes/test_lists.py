"""The lists of an IVF index follow the corpus, whatever the size of a shard; the sample they are learnt from too."""

from pathlib import Path

import pytest

from tests.support.evaluating import copied
from tests.support.indexing import index, sql
from tests.support.shared import indexed
from vitalfew.configs.schema import IndexConfig
from vitalfew.storage.indexes.faiss_shards import FaissShard
from vitalfew.storage.indexes.types import FaissRecipe
from vitalfew.tasks.registry import make


@pytest.mark.parametrize(
    ("vectors", "lists", "points"), [(1_000, 25, 65_536), (1_000_000, 4_000, 256_000), (10**8, 16_384, 1_048_576)]
)
def test_lists_grow_with_the_root_of_the_corpus_and_with_what_they_are_learnt_from(
    vectors: int, lists: int, points: int
) -> None:
    ivf = make(IndexConfig(type="ivf_flat"), "index")
    size = FaissRecipe(ivf, 4, vectors, vectors)
    assert (ivf.nlist(size), ivf.points(size)) == (lists, points)


def test_lists_follow_the_corpus_whatever_the_size_of_a_shard(tmp_path: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    flat, lists = {*store.glob("faiss/*")}, set()
    for shard_mb in (1, 64):
        index(store, index={"type": "ivf_flat", "shard_mb": shard_mb})
    for folder in {*store.glob("faiss/*")} - flat:
        lists |= {FaissShard(path).inner.nlist for path in folder.glob("*.sentence.faiss")}
        assert not [*folder.glob("staging/*")]  # the sample is not kept
    assert lists == {sql(store, "SELECT count(*) FROM sentences")[0][0] // 39}
