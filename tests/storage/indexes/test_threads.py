"""An index that several threads read at once, as configurations of a server do."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.support.evaluating import searchable
from vitalfew.storage.indexes import units
from vitalfew.tasks.retrieve import Searcher


def test_threads_that_share_an_index_read_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "CACHED_BYTES", 1)
    shared = Searcher.named(searchable(), "test").units
    shards = len(shared.artifacts["passages"].completed().shards)
    places = [(shard, row) for shard in range(shards) for row in range(len(shared.ids("passage", shard)))]
    expected = [shared.row("passage", *place) for place in places]
    assert shards > 1

    def read(seed: int) -> bool:
        order = np.random.default_rng(seed).permutation(len(places))
        alone = all(shared.row("passage", *places[number]) == expected[number] for number in order)
        taken = shared.take("passages", *np.array(places)[order].T, ["text"])["text"].to_pylist()
        return alone and taken == [expected[number]["text"] for number in order]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(8)))
