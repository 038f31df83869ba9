"""An index through a network at its worst, in this process: the same bytes as on a disk."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.faulty import FaultyProxy, Forward
from tests.support.indexing import contents, index, objects_contents, sql
from tests.support.object_store import Answer, Asked
from vitalfew.storage.costs import Cost, read_ledger, write_ledger
from vitalfew.storage.files import BucketError

INDEXED = "SELECT (SELECT count(*) FROM passages), (SELECT count(*) FROM sentences), (SELECT count(*) FROM vectors)"


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], list[Any]]:
    """What an index comes to in a directory: checksums and rows."""
    store = tmp_path_factory.mktemp("disk") / "store"
    index(store, bm25={"enabled": True})
    return contents(store), sql(store, INDEXED)


def errors(proxy: FaultyProxy) -> None:
    proxy.fail(500, every=7)
    proxy.fail(503, every=11)


def lost_answers(proxy: FaultyProxy) -> None:
    """Of writes that are done."""
    proxy.cut(every=3, kinds=("PUT", "POST", "DELETE"))


def broken_connections(proxy: FaultyProxy) -> None:
    """Half-sent objects, lost answers, late ones."""

    def cut_half(asked: Asked, forward: Forward) -> Answer:
        answer = forward(asked)  # obstore 0.12 asks again for half an object, and not for half an error
        return replace(answer, sent=0.5) if answer.status < 300 else answer

    proxy.fault(cut_half, kinds=("GET",), every=3)
    proxy.cut(every=9)
    proxy.slow(0.05, every=10)


@pytest.mark.slow
@pytest.mark.parametrize("set_faults", [errors, lost_answers, broken_connections])
def test_an_index_through_faults(
    store: Path,
    proxy: FaultyProxy,
    on_disk: tuple[dict[str, str], list[Any]],
    set_faults: Callable[[FaultyProxy], None],
) -> None:
    set_faults(proxy)
    index(store, bm25={"enabled": True})
    assert sql(store, INDEXED) == on_disk[1]
    proxy.clear()
    assert objects_contents(store) == on_disk[0]


def test_what_cannot_be_reached_is_not_called_damaged(store: Path, proxy: FaultyProxy) -> None:
    ledger = store / "costs" / "0123456789abcdef" / "00000.parquet"
    paid = {**vars(Cost()), "shard": 0, "run_id": "earlier", "stage": "load", "rows": 0, "finished": True}
    paid["started"] = datetime.now(UTC)
    write_ledger(ledger, [paid])
    with proxy.forbid_all(), pytest.raises(BucketError):
        write_ledger(ledger, [{**paid, "run_id": "later"}])
    write_ledger(ledger, [{**paid, "run_id": "later"}])
    assert [row["run_id"] for row in read_ledger(ledger)] == ["earlier", "later"]
