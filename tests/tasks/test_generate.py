"""Ratings that are remembered: across thresholds a context is rated once, and the same kept contexts answered once."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.damage import flip
from tests.support.evaluating import copied, run
from tests.support.indexing import index, sql
from tests.support.shared import indexed
from tests.support.tiny_models import llama


def test_a_rating_never_differs_between_runs_of_one_model(tmp_path: Path) -> None:
    """Three questions with three contexts: in a sweep, in another run, and where `reuse_ratings=false` rates anew."""
    index(tmp_path / "store", "synthetic:passages=20,questions=3,seed=3")
    model = llama(tmp_path / "model", positions=2048, tokens=("yes", "no"))
    generate = {"generator": "sparse_rag", "model": str(model), "precision": "fp32", "max_tokens": 3}

    def asked(*thresholds: float, **options: Any) -> dict[str, Any]:
        methods = {f"at {each}": {"generate": {**generate, "threshold": each, **options}} for each in thresholds}
        return {"index": "test", "retrieve": {"top_k": 3}, "methods": methods, "score": {"metrics": ["f1"]}}

    run(tmp_path / "store", asked(0.0, 0.5))
    run(tmp_path / "store", asked(0.4, answer_position="longest"))
    run(tmp_path / "store", asked(1.0, reuse_ratings=False, temperature=0.5))
    query = "SELECT count(DISTINCT rating_id), count(*), max(spread), sum(n) FROM (SELECT rating_id, count(*) AS n, "
    query += "max(score) - min(score) AS spread FROM ratings GROUP BY ALL)"
    assert sql(tmp_path / "store", query) == [(9, 9, pytest.approx(0, abs=1e-7), 9 * 4)]


def test_answers_in_a_damaged_file_are_not_taken_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Size and date are those it was written with. DuckDB would read other answers, which then got a valid checksum."""
    store = copied(indexed(), tmp_path / "store")
    settings: dict[str, Any] = {
        "index": "test",
        "questions": {"sample": 12, "batch": 6},
        "retrieve": {"retriever": "passage", "top_k": 3},
        "generate": {"generator": "tests.support.fakes:FirstWords"},
        "score": {"metrics": ["f1"]},
        "methods": {"full": {}},
    }
    first = run(store, settings).methods["full"]["generate"]
    damaged = store / first.shards[0].files[0].path
    flip(damaged)
    again = run(store, settings, questions={"sample": 12, "batch": 4}).methods["full"]["generate"]
    whole = first.shards[1].rows("candidates")
    assert 0 < again.note("reused") == whole < again.rows["candidates"]
    (warning,) = {record.message for record in caplog.records if "damaged" in record.message}
    assert str(damaged) in warning
    flip(damaged)
    columns = ["question_id", "text", "completion_tokens"]
    one, other = (made.read(store, "candidates", columns).sort_by("question_id") for made in (first, again))
    assert one.equals(other)


READ: dict[str, Any] = {
    "index": "test",
    "questions": {"sample": 6},
    "retrieve": {"retriever": "passage", "top_k": 3},
    "generate": {"generator": "reader", "precision": "fp32", "device": "cpu"},
    "score": {"metrics": ["tokens"]},
}
EACH: dict[str, Any] = {"generate": {"per_context": True}, "critique": {"critic": "embedded"}, "select": {}}


def test_a_pair_is_read_once_across_methods_and_runs(tmp_path: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    made = run(store, {**READ, "methods": {"full": {}, "best": {"refine": {"top_k": 1}}}}).methods
    made |= run(store, {**READ, "methods": {"each": EACH}}).methods  # one answer for every context
    first, *later = (made[name]["generate"] for name in ("full", "best", "each"))
    questions = first.rows["candidates"]
    read, *again = (sum(record.cost.tokens for record in each.shards) for each in (first, *later))
    assert read > 0 == first.note("remembered")
    assert again == [0, 0]
    # The last method has an answer in common with the one before.
    assert [each.note("remembered") for each in later] == [questions, first.rows["readings"] - questions]
    assert first.rows["readings"] == made["full"]["refine"].rows["evidence"] > questions
    # Nobody gets for nothing what another paid: an answer's seconds count what its pairs took.
    whole, _, each = (sum(own.read(store, "candidates", ["seconds"])["seconds"].to_pylist()) for own in (first, *later))
    paid = sum(first.read(store, "readings", ["seconds"])["seconds"].to_pylist())
    assert whole > paid > 0
    assert each > paid
    # Alone it gives what it gives after others.
    fresh = copied(indexed(), tmp_path / "fresh")
    alone = run(fresh, {**READ, "methods": {"each": EACH}}).methods["each"]["generate"]
    assert alone.artifact == made["each"]["generate"].artifact
    one, other = (
        of.read(at, "candidates").drop_columns(["seconds", "reused"])
        for of, at in ((alone, fresh), (made["each"]["generate"], store))
    )
    assert one.equals(other)
