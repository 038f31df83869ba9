"""Ratings that are remembered: across thresholds a context is rated once, and the same kept contexts answered once."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.damage import flip
from tests.support.evaluating import copied, run, searchable, values
from tests.support.indexing import index, sql
from tests.support.shared import indexed
from tests.support.tiny_models import llama
from vitalfew.configs.evaluation import Evaluate
from vitalfew.storage.manifests import Manifest

THRESHOLDS = (None, 0.0, 0.5, 1.0)


Sweep = tuple[Path, dict[str, dict[str, float | None]]]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A store with a sweep and with two other runs of the model, and the metrics of the sweep's methods."""
    path = tmp_path_factory.mktemp("ratings")
    index(path / "store", "synthetic:passages=20,questions=3,seed=3")
    model = llama(path / "model", positions=2048, tokens=("yes", "no"))
    generate = {"generator": "sparse_rag", "model": str(model), "precision": "fp32", "max_tokens": 3}

    def asked(thresholds: tuple[float | None, ...], **options: Any) -> dict[str, Any]:
        methods = {
            f"sigma {threshold}": {
                "retrieve": {"top_k": 3},
                "generate": {**generate, "threshold": threshold, **options},
            }
            for threshold in thresholds
        }
        score = {"metrics": ["f1", "latency", "assessment"]}
        return {"index": "test", "methods": methods, "score": score, "primary": "f1"}

    outcome = run(path / "store", asked(THRESHOLDS))
    metrics = {method: values(path / "store", outcome, method) for method in outcome.methods}
    run(path / "store", asked((0.4,), answer_position="longest"))
    run(path / "store", asked((1.0,), reuse_ratings=False, temperature=0.5))
    return path / "store", metrics


@pytest.fixture(scope="module")
def store(sweep: Sweep) -> Path:
    return sweep[0]


def test_a_rating_never_differs_between_runs_of_one_model(store: Path) -> None:
    query = "SELECT count(DISTINCT rating_id), count(*), max(spread) FROM (SELECT rating_id, count(*) AS n, "
    query += "max(score) - min(score) AS spread FROM ratings GROUP BY ALL)"
    [(ratings, rows, spread)] = sql(store, query)
    assert (ratings, rows) == (9, 9)
    assert spread == pytest.approx(0, abs=1e-7)  # even where reuse_ratings=false has it made again
    [(seen,)] = sql(store, "SELECT count(*) FROM ratings")
    assert seen == 9 * 5  # all but the method without a threshold


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
    "questions": {"sample": 12},
    "retrieve": {"retriever": "passage", "top_k": 3},
    "generate": {"generator": "reader", "precision": "fp32", "device": "cpu"},
    "score": {"metrics": ["tokens"]},
}
BEST: dict[str, Any] = {"refine": {"top_k": 1}}
EACH: dict[str, Any] = {"generate": {"per_context": True}, "critique": {"critic": "embedded"}, "select": {}}


def test_a_pair_is_read_once_across_methods_and_runs(tmp_path: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    made = run(store, {**READ, "methods": {"full": {}, "best": BEST}}).methods
    made |= run(store, {**READ, "methods": {"each": EACH}}).methods  # one answer for every context
    first, *later = (made[name]["generate"] for name in ("full", "best", "each"))
    questions = first.rows["candidates"]
    read, *again = (sum(record.cost.tokens for record in each.shards) for each in (first, *later))
    assert read > 0 == first.note("remembered")
    assert again == [0, 0]
    # The last method has an answer in common with the one before.
    assert [each.note("remembered") for each in later] == [questions, first.rows["readings"] - questions]
    assert first.rows["readings"] == made["full"]["refine"].rows["evidence"] > questions
    assert all("readings" not in each.rows for each in later)
    # Nobody gets for nothing what another paid: an answer's seconds count what its pairs took.
    whole, *parts = (
        sum(each.read(store, "candidates", ["seconds"])["seconds"].to_pylist()) for each in (first, *later)
    )
    paid = sum(first.read(store, "readings", ["seconds"])["seconds"].to_pylist())
    assert whole > paid
    assert parts[1] > paid > 0
    assert parts[0] > 0
    # Each alone gives what it gives after others.
    for name, own in (("best", BEST), ("each", EACH)):
        fresh = copied(indexed(), tmp_path / name)
        alone = run(fresh, {**READ, "methods": {name: own}}).methods[name]["generate"]
        assert alone.artifact == made[name]["generate"].artifact
        one, other = (
            of.read(at, "candidates").drop_columns(["seconds", "reused"])
            for of, at in ((alone, fresh), (made[name]["generate"], store))
        )
        assert one.equals(other)


SCORED: dict[str, Any] = {
    **READ,
    "questions": {},
    "retrieve": {"retriever": "spans"},
    "refine": {"refiner": "spans", "stop": 1, "max_tokens": 100},
    "score": {"metrics": ["f1"]},
    "methods": {"spans": {}},
}


def answers(store: Path, made: Manifest) -> list[tuple[str, float]]:
    rows = made.read(store, "candidates", ["question_id", "text", "logprob"]).sort_by("question_id").to_pylist()
    return [(row["text"], row["logprob"]) for row in rows]


def test_a_weight_of_retrieval_is_chosen_and_reads_and_refines_nothing_again(tmp_path: Path) -> None:
    store = copied(searchable(), tmp_path / "store")
    plain = run(store, {**SCORED, "questions": {"half": "development"}}).methods["spans"]
    outcome = run(store, {**SCORED, "choose": {"generate.retrieval_weight": [0, 2], "by": "f1"}})
    chosen = Evaluate.model_validate(outcome.run.config).chosen
    assert chosen
    assert [tried.values for tried in chosen.tried] == [{"generate.retrieval_weight": weight} for weight in (0, 2)]
    assert outcome.development
    none, some = (outcome.development.methods[f"spans retrieval_weight={weight}"] for weight in (0, 2))
    # Weight 0 is the method as it was; another reads no pair again, and takes no answer of it.
    assert {manifest.artifact for manifest in plain.values()} == {manifest.artifact for manifest in none.values()}
    assert none["refine"].artifact == some["refine"].artifact
    again = some["generate"]
    assert sum(record.cost.tokens for record in again.shards) == 0 < again.note("remembered")
    assert again.note("reused") == 0
    before, after = answers(store, none["generate"]), answers(store, again)
    assert sum(one != other for (_, one), (_, other) in zip(before, after, strict=True)) > len(before) / 2


def test_a_damaged_reading_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = copied(indexed(), tmp_path / "store")
    first = run(store, {**READ, "methods": {"full": {}}}).methods["full"]["generate"]
    (damaged,) = (store / file.path for file in first.files() if file.table == "readings")
    flip(damaged)
    again = run(store, {**READ, "methods": {"each": EACH}}).methods["each"]["generate"]
    assert (again.note("remembered"), again.rows["readings"]) == (0, first.rows["readings"])
    assert any(str(damaged) in record.message for record in caplog.records)
