"""The generations of an index's name: recorded, promoted and rolled back, on a disk and in a bucket."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.faulty import FaultyProxy
from vitalfew.storage import files, generations, version
from vitalfew.storage.generations import CannotPromote
from vitalfew.storage.runs import IndexNotFound, NamedIndex, find_index

ROLES = ("passages", "sentences", "vectors", "faiss")


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Empty."""
    place: Path = request.getfixturevalue("bucket") if request.param == "bucket" else tmp_path / "store"
    return place


def built(store: Path, number: int, name: str = "notes") -> NamedIndex:
    """A build whose artifacts are there, as far as their manifests say so."""
    version.mark(store)
    artifacts = {role: f"{role}/{number:016x}" for role in ROLES}
    for artifact in artifacts.values():
        files.write_json(store / artifact / "manifest.json", {})
    return NamedIndex(name, f"run-{number}", artifacts, {"encode": {"context": str(number)}})


def record(store: Path, number: int, **given) -> generations.Generation:
    return generations.record(store, built(store, number), **given)


def numbers(store: Path) -> list[int]:
    return [each.number for each in generations.history(store, "notes")]


def current(store: Path) -> int:
    return find_index(store, "notes").generation


def test_every_build_is_a_generation_and_the_name_moves_at_once(store: Path) -> None:
    for number in (1, 2, 3):
        assert record(store, number, settings=f"{number:016x}").number == number
        assert current(store) == number
        assert find_index(store, "notes").artifacts == built(store, number).artifacts
    one, *_ = generations.history(store, "notes")
    assert (one.run_id, one.settings, one.verdict) == ("run-1", f"{1:016x}", "")
    assert one.corpus == f"{1:016x}"
    again = record(store, 3)
    assert (again.number, numbers(store)) == (3, [1, 2, 3])


def test_a_candidate_is_recorded_and_promoted_after_its_verdict(store: Path) -> None:
    assert record(store, 1, promoted=False).number == 1
    assert current(store) == 1  # the first one of a name
    candidate = record(store, 2, promoted=False)
    assert current(store) == 1
    assert record(store, 2, promoted=False) == candidate  # the run was killed and comes again
    generations.judge(store, "notes", 2, "rejected")
    again = record(store, 2, promoted=False)
    assert (again.verdict, numbers(store)) == ("rejected", [1, 2])
    assert record(store, 1, promoted=False).number == 1  # the corpus is what it was: nothing is to be judged
    assert generations.promote(store, "notes", 2, instead_of=1).verdict == "rejected"
    assert current(store) == 2


def test_rolling_back_goes_back_step_by_step_and_then_says_so(store: Path) -> None:
    for number in (1, 2, 3, 4):
        record(store, number)
    generations.promote(store, "notes", 2)
    assert [generations.rollback(store, "notes").number for _ in range(4)] == [4, 3, 2, 1]
    with pytest.raises(CannotPromote, match="no other generation was current before generation 1"):
        generations.rollback(store, "notes")
    assert generations.promote(store, "notes").number == 4  # the latest
    assert generations.rollback(store, "notes").number == 1
    assert numbers(store) == [1, 2, 3, 4]


def test_what_is_not_there_is_refused_and_nothing_is_written(store: Path) -> None:
    for wrong in ("notes", "../notes", ""):
        for call in (generations.promote, generations.rollback, generations.history):
            with pytest.raises(IndexNotFound, match="no index"):
                call(store, wrong)
    assert not files.find(store, "*")
    record(store, 1)
    record(store, 2)
    with pytest.raises(CannotPromote, match=r"has no generation 3; there are: 1, 2"):
        generations.promote(store, "notes", 3)
    files.remove(store / "faiss" / f"{1:016x}" / "manifest.json")
    for refused in (lambda: generations.promote(store, "notes", 1), lambda: generations.rollback(store, "notes")):
        with pytest.raises(CannotPromote, match=r"generation 1 of notes was removed: faiss/0+1 is not in"):
            refused()
    assert current(store) == 2


def test_a_damaged_record_costs_one_generation_or_none(store: Path) -> None:
    for number in (1, 2, 3):
        record(store, number)
    files.write_bytes(store / "generations" / "notes.00002.json", b"{")
    assert numbers(store) == [1, 3]
    with pytest.raises(files.DamagedRecord, match=r"notes\.00002\.json"):
        generations.promote(store, "notes", 2)
    files.write_bytes(store / "indexes" / "notes.json", b"{")
    with pytest.raises(files.DamagedRecord):
        generations.rollback(store, "notes")
    assert generations.promote(store, "notes", 1).number == current(store) == 1  # what is named is enough
    files.write_bytes(store / "indexes" / "notes.json", b"{")
    assert record(store, 3).number == current(store) == 3  # and so is the same `vitalfew index`


def test_a_name_that_is_removed_takes_its_history_along_and_no_other(store: Path) -> None:
    record(store, 1)
    record(store, 2)
    other = generations.record(store, built(store, 5, name="notes.00001"))
    generations.forget(store, "notes")
    with pytest.raises(IndexNotFound):
        generations.history(store, "notes")
    assert generations.history(store, "notes.00001") == [other]
    assert record(store, 3).number == 1


def test_a_promotion_that_a_bad_network_cuts_off_is_done_once(proxy: FaultyProxy, bucket: Path) -> None:
    for number in (1, 2, 3):
        record(bucket, number)
    with proxy.cut(every=2, kinds=("PUT",), within="indexes/notes.json"):
        generations.rollback(bucket, "notes")
        generations.promote(bucket, "notes", 1)
    now = find_index(bucket, "notes")
    assert (now.generation, now.before) == (1, (1, 2))


def test_a_kill_at_any_moment_leaves_one_generation_or_the_other(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for number in (1, 2):
        record(store, number)
    for _ in range(10):
        told, tell = os.pipe()
        child = os.fork()
        if not child:
            while True:
                for number in (1, 2):
                    generations.promote(store, "notes", number)
                    os.write(tell, b".")
        os.read(told, 3)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(told)
        os.close(tell)
        now = find_index(store, "notes")
        assert now.artifacts == built(store, now.generation).artifacts
        assert generations.promote(store, "notes", 1).number == 1  # no lock is left behind
    assert numbers(store) == [1, 2]
