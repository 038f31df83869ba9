"""`vitalfew store`: what is listed, what verify finds, what gc keeps, removes and never touches."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.support.damage import flip
from tests.support.indexing import contents, index, sql
from vitalfew.flows.cli.main import app
from vitalfew.storage import generations
from vitalfew.storage.artifacts import Artifact, ShardRecord
from vitalfew.storage.files import this_process
from vitalfew.storage.runs import find_index
from vitalfew.storage.upkeep.inventory import RetentionPolicy, artifacts
from vitalfew.storage.upkeep.removal import plan, remove


class Interrupted(Exception):
    """Stands for whatever ends a process."""


def store_command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["store", *map(str, arguments)])


def ls(store: Path) -> dict:
    done = store_command("ls", "--format", "json", "--store", store)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def gc(store: Path, *options: str, keep: int = 1) -> dict:
    done = store_command("gc", "--format", "json", "--store", store, "--keep", keep, *options)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def names(store: Path) -> set[str]:
    return {artifact.name for artifact in artifacts(store)}


def used(store: Path, name: str) -> set[str]:
    return set(find_index(store, name).artifacts.values())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which `test` was made twice, the second time otherwise."""
    folder = tmp_path_factory.mktemp("made") / "store"
    index(folder, encode={"context": "passage"})
    index(folder, encode={"context": "late"})
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A copy, with the dates of its files."""
    return Path(shutil.copytree(made, tmp_path / "store"))


def stop_at(monkeypatch: pytest.MonkeyPatch, store: Path, table: str, shard: int, **given) -> None:
    """Run an index that ends right after it has marked a shard."""
    mark_done = Artifact.mark_done

    def end(self: Artifact, record: ShardRecord) -> ShardRecord:
        marked = mark_done(self, record)
        if (self.table, record.shard) == (table, shard):
            raise Interrupted
        return marked

    with monkeypatch.context() as patch:
        patch.setattr(Artifact, "mark_done", end)
        with pytest.raises(Interrupted):
            index(store, **given)


def test_ls_says_what_is_there(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(monkeypatch, store, "vectors", 1, encode={"context": "exact"})
    listed = ls(store)
    entries = {entry["artifact"]: entry for entry in listed["artifacts"]}
    assert {entry["stage"] for entry in entries.values()} == {"load", "split", "encode", "index"}
    (unfinished,) = [entry for entry in entries.values() if entry["state"] == "unfinished"]
    assert (unfinished["shards_done"], unfinished["shards"]) == (2, 4)
    passages = next(entry for entry in entries.values() if entry["stage"] == "load")
    assert (passages["rows"], passages["indexes"], len(passages["used_by"])) == (60, ["test"], 3)
    assert "encode.context=late" in listed["indexes"][0]["settings"]
    ((paid,),) = sql(store, "SELECT sum(usd) FROM costs")
    assert sum(entry["usd"] for entry in entries.values()) - unfinished["usd"] == pytest.approx(paid)
    shown = store_command("ls", "--store", store).output
    assert "2 of 4" in shown
    assert "encode.context=late" in shown


FAULTS = {
    "changed bytes": (lambda s: flip(first(s, "vectors/*/00002.parquet")), "differs from what was written"),
    "short file": (lambda s: os.truncate(first(s, "faiss/*/*.faiss"), 9), "has 9 bytes and was written with"),
    "missing costs": (lambda s: first(s, "costs/*/*.parquet").unlink(), "00000.parquet is missing"),
    "half a manifest": (lambda s: halve(first(s, "sentences/*/manifest.json")), "manifest.json is damaged"),
}


def first(store: Path, pattern: str) -> Path:
    return sorted(store.glob(pattern))[0]


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("fault", FAULTS)
def test_verify_names_a_fault_and_its_remedy_mends_it(store: Path, fault: str) -> None:
    before = contents(store)
    damage, words = FAULTS[fault]
    damage(store)
    done = store_command("verify", "--store", store)
    assert (done.exit_code, words in done.output) == (1, True), done.output
    remedy = next(line for line in done.output.splitlines() if "vitalfew index" in line)
    assert "rm " not in remedy or fault == "changed bytes"  # too lately for this machine to remember what it has read
    for command in remedy.split(" && "):
        match shlex.split(command):
            case ["rm", path]:
                os.unlink(path)
            case ["vitalfew", *words]:
                assert CliRunner().invoke(app, words).exit_code == 0
    assert store_command("verify", "--store", store).exit_code == 0
    assert contents(store) == before


def test_faults_outside_of_artifacts(store: Path) -> None:
    halve(first(store, "runs/*.json"))
    halve(first(store, "indexes/*.json"))
    orphan = store / "questions" / ("0" * 16)
    orphan.mkdir()
    (orphan / "00000.parquet").write_bytes(b"x")
    extra = first(store, "passages/*/manifest.json").with_name("00099.parquet")
    extra.write_bytes(b"x")
    leftover = store / "runs" / f".x.json.{this_process()}1.tmp"
    leftover.write_bytes(b"x")
    done = store_command("verify", "--store", store)
    assert done.exit_code == 1
    told = ("indexes/test.json is damaged", "store rm test", "it belongs to no artifact", "left behind by a process")
    for words in (*told, "runs/", "00099.parquet belongs to no shard", "5 faults"):
        assert words in done.output, done.output


def test_gc_frees_what_was_superseded_and_keeps_its_costs(store: Path) -> None:
    kept = contents(store)
    costs = sql(store, "SELECT * FROM costs ORDER BY fingerprint, shard")
    found = gc(store, "--delete")
    assert names(store) == set(found["kept"]) == used(store, "test")
    left = contents(store)
    assert left.items() <= kept.items()
    assert sql(store, "SELECT * FROM costs ORDER BY fingerprint, shard") == costs
    assert sql(store, "SELECT count(*) FROM runs") == [(2,)]
    assert sql(store, "SELECT count(DISTINCT fingerprint) FROM vectors") == [(1,)]
    assert gc(store)["removals"] == []
    # what was removed can be made again, and is paid for again
    index(store, encode={"context": "passage"})
    assert contents(store).items() >= kept.items() - left.items()
    assert sql(store, "SELECT count(*) FROM costs")[0][0] > len(costs)


def test_gc_keeps_the_last_generations_and_those_to_roll_back_to(store: Path) -> None:
    """Five generations, of which the first, second and third were current; the last two were not promoted."""
    index(store, encode={"context": "pooled"})
    every = generations.history(store, "test")
    for number, other in ((4, every[0]), (5, every[1])):
        built = replace(other.index, artifacts={**other.artifacts, "passages": f"passages/{number:016}"})
        assert generations.record(store, built, promoted=False).number == number
    assert not json.loads(store_command("gc", "--format", "json", "--store", store).stdout)[
        "removals"
    ]  # three are kept
    kept = gc(store, keep=2)["kept"]
    assert {*every[1].artifacts.values(), *every[2].artifacts.values()} <= kept.keys()
    assert kept[every[1].artifacts["vectors"]] in ("generation 2 of test", "generation 5 of test")
    assert kept[every[2].artifacts["vectors"]] == "index test"
    generations.rollback(store, "test")
    gc(store, "--delete", keep=1)
    assert set(every[1].artifacts.values()) <= names(store)
    assert [each.number for each in generations.history(store, "test")] == [1, 2, 3, 4, 5]
    with pytest.raises(generations.CannotPromote, match="generation 1 of test was removed"):
        generations.promote(store, "test", 1)
    shown = CliRunner().invoke(app, ["index", "history", "test", "--format", "json", "--store", str(store)])
    states = [each["state"] for each in json.loads(shown.stdout)]
    assert states == ["removed", "current", "", "removed", "removed"]  # the third is of the last run
    index(store, encode={"context": "pooled"})  # made again, it is generation 6
    assert find_index(store, "test").generation == 6
    assert find_index(store, "test").artifacts == every[2].artifacts


def test_rm_forgets_a_name_and_gc_frees_the_rest(store: Path) -> None:
    index(store, name="other", encode={"units": ["passage"]})
    assert store_command("rm", "test", "--store", store).exit_code == 0
    assert not [*store.glob("generations/test.*")]
    gc(store, "--delete")
    assert names(store) == used(store, "other")
    for name in ("test", "../runs/x"):
        done = store_command("rm", name, "--store", store)
        assert (done.exit_code, "there are: other" in done.output) == (1, True)


def test_gc_keeps_what_an_unfinished_run_goes_on_from(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(monkeypatch, store, "vectors", 1, encode={"context": "exact"})
    exact = next(entry["artifact"] for entry in ls(store)["artifacts"] if entry["state"] == "unfinished")
    assert "can continue from it" in gc(store, "--delete")["kept"][exact]
    assert exact in {removal["name"] for removal in gc(store, "--keep-unfinished", "0")["removals"]}
    index(store)  # a later run of that name that completed
    paid = sql(store, "SELECT count(*) FROM costs")[0][0]
    assert exact in {removal["name"] for removal in gc(store, "--delete")["removals"]}
    # preparation and shards of an artifact that never was
    assert sql(store, "SELECT count(*) FROM costs") == [(paid + 3,)]


def test_gc_leaves_what_a_process_works_on(store: Path) -> None:
    (spare,) = [each for each in artifacts(store) if each.table == "vectors" and each.name not in used(store, "test")]
    code = f"import fcntl, time; f = open({str(spare.lock)!r}); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True)"
    holder = subprocess.Popen([sys.executable, "-c", f"{code}; time.sleep(60)"], stdout=subprocess.PIPE)
    assert holder.stdout
    holder.stdout.readline()
    try:
        assert gc(store, "--delete")["kept"][spare.name] == "a process is working on it"
        assert spare.directory.exists()
    finally:
        holder.kill()
        holder.communicate()
    assert spare.name in {removal["name"] for removal in gc(store)["removals"]}


def test_gc_that_is_ended_anywhere_can_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends it after each file in turn: what is left never looks complete, and the next gc removes the rest."""
    store, policy = tmp_path / "store", RetentionPolicy(generations=1)
    for context in ("passage", "late"):
        index(store, "synthetic:passages=12,questions=2,seed=3", encode={"context": context})
    planned = plan(store, policy).removals
    removed = [Artifact(store, *removal.name.split("/")) for removal in planned]
    attempts, left, unlink = 0, 0, os.unlink

    def once(*arguments, **options) -> None:
        nonlocal left
        if not left:
            raise Interrupted
        unlink(*arguments, **options)
        left -= not str(arguments[0]).endswith(".tmp")

    while planned and attempts < 100:
        left = 1
        with monkeypatch.context() as patch, suppress(Interrupted, BaseExceptionGroup):
            patch.setattr(os, "unlink", once)
            list(remove(store, planned, policy))
        attempts += 1
        for artifact in removed:
            whole = artifact.recorded_manifest()
            assert whole is None or artifact.damage(whole) is None
        planned = plan(store, policy).removals
    assert attempts > 10
    assert names(store) == used(store, "test")
    assert store_command("verify", "--store", store).exit_code == 0


def test_gc_removes_what_was_left_behind(store: Path) -> None:
    passages = first(store, "passages/*/manifest.json").parent
    staging = passages / "staging"
    staging.mkdir()
    (staging / "00000.passages.arrow").write_bytes(b"x" * 100)
    dead, alive = (store / "runs" / f".x.json.{this_process()}{more}.tmp" for more in ("1", ""))
    foreign_old, foreign_new = (passages / f".00000.parquet.0123456789a{n}-1-1.tmp" for n in (1, 2))
    for path in (dead, alive, foreign_old, foreign_new):
        path.write_bytes(b"x")
    os.utime(foreign_old, (time.time() - 8 * 86_400,) * 2)
    gc(store, "--delete")
    assert not any(path.exists() for path in (staging, dead, foreign_old))
    assert alive.exists()
    assert foreign_new.exists()


@pytest.mark.parametrize("record", ["runs/*.json", "indexes/*.json", "faiss/*/*.json"])
def test_gc_does_not_guess(store: Path, record: str) -> None:
    for path in store.glob(record):
        halve(path)
    before = {path: path.is_file() and path.read_bytes() for path in store.rglob("*")}
    done = store_command("gc", "--delete", "--store", store)
    assert done.exit_code == 1, done.output
    assert "is damaged" in done.output or "can be read" in done.output
    assert {path: path.is_file() and path.read_bytes() for path in store.rglob("*")} == before
