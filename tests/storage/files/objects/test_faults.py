"""An index through a network at its worst, in this process: the same bytes as on a disk."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.faulty import FaultyProxy, Forward
from tests.support.indexing import contents, index, objects_contents, sql
from tests.support.object_store import Answer, Asked
from vitalfew.storage.costs import Cost, read_ledger, write_ledger
from vitalfew.storage.files import BucketError

INDEXED = "SELECT (SELECT count(*) FROM passages), (SELECT count(*) FROM sentences), (SELECT count(*) FROM vectors)"


def broken_connections(proxy: FaultyProxy) -> None:
    """Errors, half-sent objects, lost answers, late ones."""

    def cut_half(asked: Asked, forward: Forward) -> Answer:
        answer = forward(asked)  # obstore 0.12 asks again for half an object, and not for half an error
        return replace(answer, sent=0.5) if answer.status < 300 else answer

    proxy.fault(cut_half, kinds=("GET",), every=3)
    proxy.fail(500, every=7)
    proxy.fail(503, every=11)
    proxy.cut(every=9)
    proxy.slow(0.05, every=10)


@pytest.mark.slow
def test_an_index_through_faults(store: Path, proxy: FaultyProxy, tmp_path: Path) -> None:
    index(tmp_path, bm25={"enabled": True})
    broken_connections(proxy)
    index(store, bm25={"enabled": True})
    assert sql(store, INDEXED) == sql(tmp_path, INDEXED)
    proxy.clear()
    assert objects_contents(store) == contents(tmp_path)


def test_what_cannot_be_reached_is_not_called_damaged(store: Path, proxy: FaultyProxy) -> None:
    ledger = store / "costs" / "0123456789abcdef" / "00000.parquet"
    paid = {**vars(Cost()), "shard": 0, "run_id": "earlier", "stage": "load", "rows": 0, "finished": True}
    paid["started"] = datetime.now(UTC)
    write_ledger(ledger, [paid])
    with proxy.forbid_all(), pytest.raises(BucketError):
        write_ledger(ledger, [{**paid, "run_id": "later"}])
    write_ledger(ledger, [{**paid, "run_id": "later"}])
    assert [row["run_id"] for row in read_ledger(ledger)] == ["earlier", "later"]
