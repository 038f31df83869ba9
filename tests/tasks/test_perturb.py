"""The stage perturb: noise beside a hit that answers, orders, rejects, and what they come to in an evaluation."""

from itertools import groupby
from typing import Any

import pytest

from tests.support.evaluating import run, values
from tests.support.indexing import index, sql
from tests.support.stages import staged
from vitalfew.configs.evaluation import PerturbConfig, Questions
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.runs import find_index
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.metrics.ranking import first_correct
from vitalfew.tasks.perturb import Perturb
from vitalfew.tasks.retrieve import Retrieve

Rows = dict[int, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def retrieved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Artifact, Artifact]:
    """Questions in shards of four, and their hits by keywords."""
    store = tmp_path_factory.mktemp("perturbed") / "store"
    index(store, "synthetic:passages=120,questions=18,seed=3", bm25={"enabled": True})
    named = find_index(store, "test")
    ask = Ask(store, named.located(store)["passages"], Questions(batch=4))
    ask.run("test")
    retrieve = staged(Retrieve, store, ask.artifact, None, named, RetrieveConfig(retriever="bm25", top_k=3))
    retrieve.run("test")
    return ask.artifact, retrieve.artifact


def read(artifact: Artifact, table: str | None = None) -> list[dict[str, Any]]:
    return [row for record in artifact.completed().shards for row in artifact.read(record.shard, table).to_pylist()]


def grouped(rows: list[dict[str, Any]]) -> Rows:
    return {key: [*own] for key, own in groupby(rows, key=lambda row: row["question_id"])}


def perturbed(retrieved: tuple[Artifact, Artifact], **settings: Any) -> tuple[Rows, list[dict[str, Any]]]:
    """The rows by question, and the rejects."""
    stage = Perturb(retrieved[0].store, dict(zip(Perturb.reads, retrieved, strict=True)), PerturbConfig(**settings))
    stage.run("test")
    assert stage.artifact.schema(0).equals(schemas.PERTURBED)
    return grouped(read(stage.artifact)), read(stage.artifact, "rejects")


def test_noise_stands_behind_the_hit_that_answers(retrieved: tuple[Artifact, Artifact]) -> None:
    noise = 3
    asked, hits = {row["question_id"]: row for row in read(retrieved[0])}, grouped(read(retrieved[1]))
    made, rejects = perturbed(retrieved, noise=noise)
    assert len(made) + len(rejects) == len(asked)
    assert 0 < len(rejects) < len(asked)
    able = {key for key, own in hits.items() if first_correct(asked[key]["answers"], [hit["text"] for hit in own])}
    assert made.keys() == able
    assert {row["reason"] for row in rejects} == {"no_hit_answers"}
    for key, rows in made.items():
        assert [row["rank"] for row in rows] == [*range(1, noise + 2)]
        assert [row["noise"] for row in rows] == [False] + [True] * noise
        best = hits[key][first_correct(asked[key]["answers"], [hit["text"] for hit in hits[key]]) - 1]
        assert rows[0]["unit_id"] == best["unit_id"]
        own = {hit["passage_id"] for hit in hits[key]} | {*asked[key]["gold_passages"]}
        assert not own & {row["passage_id"] for row in rows[1:]}
        assert not first_correct(asked[key]["answers"], [f"{row['title']} {row['text']}" for row in rows[1:]])
        assert len({row["unit_id"] for row in rows}) == noise + 1


def test_less_noise_is_the_beginning_of_more_and_another_seed_is_other_noise(
    retrieved: tuple[Artifact, Artifact],
) -> None:
    few, many, other = (perturbed(retrieved, noise=n, seed=seed)[0] for n, seed in ((2, 0), (4, 0), (4, 7)))
    assert all(rows == many[key][:3] for key, rows in few.items())
    assert many != other


def test_orders_keep_the_hits(retrieved: tuple[Artifact, Artifact]) -> None:
    hits = grouped(read(retrieved[1]))
    units = {key: [row["unit_id"] for row in own] for key, own in hits.items()}
    seen: dict[str, dict[int, list[int]]] = {}
    for order in ("reversed", "shuffled"):
        made, rejects = perturbed(retrieved, order=order)
        assert not rejects
        seen[order] = {key: [row["unit_id"] for row in own] for key, own in made.items()}
    assert seen["reversed"] == {key: own[::-1] for key, own in units.items()}
    assert seen["shuffled"] != units
    assert {key: sorted(own) for key, own in seen["shuffled"].items()} == {k: sorted(v) for k, v in units.items()}


def test_rejected_questions_count_in_no_metric_of_answers(retrieved: tuple[Artifact, Artifact]) -> None:
    store = retrieved[0].store
    settings: dict[str, Any] = {
        "index": "test",
        "retrieve": {"retriever": "bm25", "top_k": 3},
        "refine": {"group": "apart"},
        "generate": {"generator": "tests.support.fakes:FirstWords"},
        "score": {"metrics": ["f1", "tokens", "answer_recall", "compression", "grounding"], "k": [3]},
        "methods": {"noisy": {"perturb": {"noise": [1, 3]}}, "plain": {}},
    }
    outcome = run(store, settings)
    assert set(outcome.methods) == {"noisy noise=1", "noisy noise=3", "plain"}
    assert "perturb" not in outcome.methods["plain"]
    rejected = outcome.methods["noisy noise=1"]["perturb"].rows["rejects"]
    left_out = dict(
        sql(store, "SELECT metric, left_out FROM summaries JOIN methods USING (fingerprint) WHERE method LIKE '%=1'")
    )
    assert left_out["f1"] == left_out["context_tokens"] == left_out["context_share"] == rejected > 0
    assert left_out["answer_recall@3"] == 0
    assert [values(store, outcome, name)["contexts"] for name in outcome.methods] == [2, 4, 3]
    assert all(values(store, outcome, name)["grounding"] == 1 for name in outcome.methods)
