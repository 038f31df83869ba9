"""The stage refine in an evaluation: an account of every question, whatever the refiner, and its compression in SQL."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.damage import flip
from tests.support.evaluating import copied, run, values
from tests.support.indexing import sql
from tests.support.shared import indexed

SETTINGS: dict[str, Any] = {
    "index": "test",
    "questions": {"batch": 2, "sample": 4},
    "retrieve": {"retriever": "passage", "top_k": 3},
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "score": {"metrics": ["compression"]},
    "methods": {"full": {}, "best": {"refine": {"top_k": 1}}, "none": {"retrieve": None}},
}


def test_every_question_has_an_account_that_agrees_with_its_contexts(tmp_path: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    outcome = run(store, SETTINGS)
    assert sql(store, "SELECT count(*), count(DISTINCT fingerprint) FROM refinements") == [(8, 2)]
    wrong = """
    SELECT * FROM refinements AS r WHERE r.seconds < 0 OR r.cut OR r.finish_reason <> '' OR r.output_tokens <>
        (SELECT sum(tokens) FROM evidence AS e WHERE e.question_id = r.question_id AND e.fingerprint = r.fingerprint)
    """
    assert sql(store, wrong) == []
    (best, full) = sql(
        store, "SELECT method, questions, input_tokens, output_tokens, share FROM compression ORDER BY 1"
    )
    assert full == ("full", 4, full[2], full[2], 1.0)
    assert best[:3] == ("best", 4, full[2])
    assert best[4] == pytest.approx(best[3] / best[2])
    assert best[4] < 1
    measured = values(store, outcome, "best")
    assert 0 < (measured["context_share"] or 0) < 1
    assert (measured["total_seconds"] or 0) > (measured["refine_seconds"] or 0) > 0
    assert values(store, outcome, "none")["context_share"] is None


def test_what_a_model_has_read_is_read_once_across_ratios_methods_and_runs(tmp_path: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    sweep = {f"at {share}": {"refine": {"refiner": "dslr", "threshold": share}} for share in (0.0, 0.1, 0.9)}
    reread = {"reranked": {"refine": {"refiner": "rerank"}, "retrieve": {"retriever": "core_context", "top_k": 2}}}
    every = {**SETTINGS, "questions": {"batch": 4}}
    outcome = run(store, {**every, "methods": sweep})
    first, *others = (outcome.methods[name]["refine"] for name in sweep)
    tokens = [sum(record.cost.tokens for record in manifest.shards) for manifest in (first, *others)]
    assert tokens[0] > 0 == tokens[1] == tokens[2]
    assert first.note("remembered") == 0
    assert all(other.note("remembered") == first.rows["readings"] for other in others)
    # Another method and run: of what it reads only that is new which no method had read.
    again = run(store, {**every, "methods": reread}).methods["reranked"]["refine"]
    assert again.rows.get("readings", 0) + again.note("remembered") == again.rows["evidence"]
    assert again.note("remembered") > 0
    # Nobody gets for nothing what another paid: the seconds count for all.
    seconds = sql(store, "SELECT min(seconds), min(cpu_seconds) FROM refinements JOIN methods USING (fingerprint)")
    assert min(seconds[0]) > 0


def test_readings_in_a_damaged_file_are_computed_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = copied(indexed(), tmp_path / "store")
    dslr = {"at 0.5": {"refine": {"refiner": "dslr", "threshold": 0.5}}}
    first = run(store, {**SETTINGS, "methods": dslr}).methods["at 0.5"]["refine"]
    damaged, *_ = (store / file.path for file in first.files() if file.table == "readings")
    flip(damaged)
    dslr["at 0.5"]["refine"]["threshold"] = 0.6
    again = run(store, {**SETTINGS, "methods": dslr}).methods["at 0.5"]["refine"]
    assert again.note("remembered") < first.rows["readings"]
    assert any(str(damaged) in record.message for record in caplog.records)
    fresh = copied(indexed(), tmp_path / "fresh")  # a ratio alone gives what it gives after others
    alone = run(fresh, {**SETTINGS, "methods": dslr}).methods["at 0.5"]["refine"]
    assert alone.read(fresh, "evidence").equals(again.read(store, "evidence"))
