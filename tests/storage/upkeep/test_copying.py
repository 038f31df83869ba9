"""`store copy`: between directories and buckets, as often as wanted, with every byte compared."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.damage import flip
from tests.support.evaluating import copied
from tests.support.indexing import contents, index, sql
from tests.support.shared import indexed
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.flows.cli.main import app
from vitalfew.storage import files, generations
from vitalfew.storage.reviews import Review, add_reviews, read_reviews
from vitalfew.storage.runs import read_runs
from vitalfew.storage.upkeep import copying
from vitalfew.tasks.retrieve import Searcher

CORPUS = "synthetic:passages=24,questions=4,seed=3"
SETTINGS = {"bm25": {"enabled": True}, "index": {"type": "sq8"}}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copied(indexed(CORPUS, **SETTINGS), tmp_path / "laptop")


def copy(source: Path, target: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["store", "copy", str(source), str(target), *options])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def rankings(store: Path) -> list[tuple[int, float]]:
    hits = Searcher.named(store, "test").hits("Where is the observatory?", RetrieveConfig(retriever="hybrid"))
    return [(hit.unit_id, hit.score) for hit in hits]


def test_a_store_is_published_and_taken_home_with_the_same_bytes(store: Path, bucket: Path, tmp_path: Path) -> None:
    assert "Copied 6 artifacts" in copy(store, bucket)
    assert "Copied 0 artifacts (0 bytes); 6 already existed" in copy(store, bucket)
    copy(bucket, tmp_path / "home")
    assert contents(tmp_path / "home") == contents(store)
    for place in (bucket, tmp_path / "home"):
        assert rankings(place) == rankings(store)
        assert sql(place, "SELECT count(*) FROM sentences") == sql(store, "SELECT count(*) FROM sentences")
        paid = "SELECT stage, shard, usd, tokens FROM costs ORDER BY ALL"
        assert sql(place, paid) == sql(store, paid)
        assert [run.run_id for run in read_runs(place)] == [run.run_id for run in read_runs(store)]
        assert generations.history(place, "test") == generations.history(store, "test")
        done = CliRunner().invoke(app, ["store", "verify", "--store", str(place)])
        assert "No faults in 6 artifacts" in done.output
    assert not index(tmp_path / "home", CORPUS, **SETTINGS).new()


def test_a_copy_that_was_cut_off_goes_on(
    store: Path, bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []
    write = files.copy

    def fail_at_the_tenth(source: Path, target: Path, checksum: str) -> None:
        begun.append(source)
        if len(begun) == 10:
            raise OSError("the line is cut")
        write(source, target, checksum)

    monkeypatch.setattr(copying.files, "copy", fail_at_the_tenth)
    done = CliRunner().invoke(app, ["store", "copy", str(store), str(bucket)])
    assert (done.exit_code, "the line is cut" in done.output) == (1, True)
    copy(store, bucket)
    assert not {*begun[:9]} & {*begun[10:]}
    copy(bucket, tmp_path / "home")
    assert contents(tmp_path / "home") == contents(store)


def test_a_damaged_source_is_named_and_nothing_of_it_counts(tmp_path: Path, bucket: Path) -> None:
    source = shutil.copytree(indexed(CORPUS, **SETTINGS), tmp_path / "store")
    flip(next(Path(source).glob("faiss/*/00000.sentence.faiss")))
    done = CliRunner().invoke(app, ["store", "copy", str(source), str(bucket)])
    assert done.exit_code == 1
    assert "00000.sentence.faiss is damaged" in " ".join(done.output.split())
    assert not files.find(bucket, "faiss/*/manifest.json")


def test_a_store_is_not_copied_into_itself(store: Path) -> None:
    done = CliRunner().invoke(app, ["store", "copy", str(store), str(store / "copy")])
    assert (done.exit_code, "one is inside the other" in " ".join(done.output.split())) == (1, True)


def test_reviews_are_added_to_those_of_the_target(store: Path, bucket: Path) -> None:
    def said(reviewer: str, verdict: str, question: int = 1) -> Review:
        return Review(reviewer, datetime(2026, 11, 27, tzinfo=UTC), "run", question, "naive", None, verdict, 2.0)

    add_reviews(store, "run", [said("Ada", "right")])
    assert "say something else" not in copy(store, bucket)
    add_reviews(store, "run", [said("Ada", "wrong", 2), said("Bob", "wrong")])
    add_reviews(bucket, "run", [said("Ada", "right", 2), said("Eve", "right")])
    assert "1 reviews of run run say something else there, and stay" in copy(store, bucket)
    assert {(each.reviewer, each.question_id, each.verdict) for each in read_reviews(bucket, "run")} == {
        ("Ada", 1, "right"), ("Ada", 2, "right"), ("Eve", 1, "right"), ("Bob", 1, "wrong")
    }  # fmt: skip
