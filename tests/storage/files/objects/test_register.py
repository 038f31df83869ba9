"""The register: it misses nobody's record, and a name in it without a record troubles nobody."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
from typer.testing import CliRunner

from tests.support.faulty import FaultyProxy
from tests.support.indexing import index, sql
from vitalfew.storage import files
from vitalfew.storage.files.objects import client, register
from vitalfew.storage.runs import index_names, read_runs


def test_the_register_misses_nobodys_record(store: Path, proxy: FaultyProxy) -> None:
    names = [f"{number:02}" for number in range(16)]
    start = threading.Barrier(4)
    proxy.cut(every=7, kinds=("PUT",))

    def write(some: list[str]) -> None:
        start.wait()
        for name in some:
            files.write_json(store / "runs" / f"{name}.json", {})

    with ThreadPoolExecutor(4) as pool:
        [*pool.map(write, (names[first::4] for first in range(4)))]
    before = files.version(store)
    assert [path.stem for path in files.find(store, "runs/*.json")] == names
    files.remove(store / "runs" / "03.json")
    assert [path.stem for path in files.find(store / "runs", "*.json")] == [name for name in names if name != "03"]
    assert files.version(store) != before


def test_a_register_that_is_lost_is_made_again(store: Path) -> None:
    files.write_json(store / "runs" / "one.json", {})
    obstore.delete(client.client(store), client.key(store / register.NAME))
    assert [path.stem for path in files.find(store, "runs/*.json")] == ["one"]
    files.write_json(store / "indexes" / "two.json", {})
    assert [path.stem for path in files.find(store, "runs/*.json") + files.find(store, "indexes/*.json")] == [
        "one",
        "two",
    ]


def test_names_whose_records_were_never_written(store: Path) -> None:
    """Of each kind: a kill came between the register and the record."""
    index(store, "synthetic:passages=10,questions=2,seed=3")
    for name in (
        "runs/20260101-000000-abcdef.json",
        "indexes/lost.json",
        "costs/0123456789abcdef/00000.parquet",
        "quotes/0123456789abcdef/00000.parquet",
        "passages/0123456789abcdef/manifest.json",
    ):
        register.note(store / name)
    assert [run.name for run in read_runs(store)] == ["test"]
    assert index_names(store) == ["test"]
    begun = {"stage": "split", "inputs": {}, "config": {}, "method": {}}
    files.write_json(store / "sentences" / "fedcba9876543210" / "stage.json", begun)
    from vitalfew.flows.cli.main import app

    for words in (["ls"], ["verify"], ["gc", "--delete"]):
        done = CliRunner().invoke(app, ["store", *words, "--store", str(store)])
        assert done.exit_code == 0, done.output
    assert "sentences/fedcba9876543210" in done.output
    assert sql(store, "SELECT count(*) FROM passages") == [(10,)]
    assert sql(store, "SELECT count(*) FROM runs") == [(1,)]
