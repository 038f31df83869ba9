"""What work costs as if nothing had been known, beside what was paid; and the costs of a cancelled shard."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import run
from tests.support.indexing import index, sql
from vitalfew.configs.evaluation import Questions
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.storage.runs import find_index
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.reports.contents import StageCost

METHODS: dict[str, Any] = {
    "index": "test",
    "generate": {"generator": "tests.support.fakes:SlowWords"},
    "retrieve": {"top_k": 3},
    "methods": {
        "naive": {"retrieve": {"retriever": "passage"}},
        "pareto": {"retrieve": {"retriever": "core_context"}},
    },
}


def written(folder: Path, changed: int) -> list[str]:
    """The sources of a corpus of 60 passages, of which so many were edited, and of questions on others."""
    texts = [f"Town {n} has a church. It was built in {1200 + n}. Its mayor is called {n} Smith." for n in range(60)]
    texts[-changed:] = [f"{text} It was edited." for text in texts[-changed:]] if changed else texts[-changed:]
    rows = [{"title": f"Town {n}", "text": text} for n, text in enumerate(texts)]
    asked = [{"question": f"When was the church of Town {n} built?", "answers": [str(1200 + n)]} for n in range(12)]
    sources = []
    for name, content in (("rows", rows), ("asked", asked)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
        sources.append(f"jsonl:{folder / name}.jsonl")
    return sources


def generated(outcome: Evaluated) -> list[StageCost]:
    return [cost for method in outcome.report.report.methods for cost in method.costs if cost.stage == "generate"]


def test_a_second_evaluation_costs_the_same_if_nothing_had_been_known(tmp_path: Path) -> None:
    store = tmp_path / "store"
    settings = {**METHODS, "questions": {"dataset": written(tmp_path, 0)[1]}}
    index(store, written(tmp_path, 0)[0])
    first = generated(run(store, settings))
    index(store, written(tmp_path, 2)[0])
    outcome = run(store, settings)
    again = generated(outcome)
    report = outcome.report.report
    for before, now in zip(first, again, strict=True):
        assert before.paid_usd == pytest.approx(before.whole_usd)
        assert now.paid_usd < before.paid_usd / 2
        assert now.whole_usd == pytest.approx(before.whole_usd, rel=0.3)
        assert now.whole_seconds == pytest.approx(before.whole_seconds, rel=0.3)
    assert sum(value or 0 for value in report.values("paid_usd")) < sum(
        value or 0 for value in report.values("stage_usd")
    )
    [(paid, known)] = sql(
        store,
        f"SELECT sum(usd), sum(usd_nothing_known) FROM spending('{outcome.run.run_id}') WHERE stage = 'generate'",
    )
    assert paid == pytest.approx(sum(cost.paid_usd for cost in again))
    assert known == pytest.approx(sum(cost.whole_usd for cost in again))
    # What was reused is told whole: what this run's shards took over, and the artifacts that it took as they were.
    [(all_paid, all_known)] = sql(
        store, f"SELECT sum(usd), sum(usd_nothing_known) FROM spending('{outcome.run.run_id}')"
    )
    whole = sum(cost.whole_usd for method in report.methods for cost in method.costs if cost.reused and not cost.shared)
    assert report.paid.usd == pytest.approx(all_paid)
    assert report.paid.usd + report.paid.earlier_usd == pytest.approx(all_known + whole)
    assert "generate" in report.paid.earlier_stages
    assert report.paid.earlier_cpu_seconds > 0
    encoded = "SELECT reused_tokens FROM costs WHERE stage = 'encode' AND run_id = (SELECT max(run_id) FROM runs "
    [(tokens,), *_] = sql(store, f"{encoded} WHERE flow = 'index_corpus') ORDER BY 1 DESC")
    assert tokens > 0


class Cancelled(BaseException):
    """As Prefect cancels a run."""


def test_a_cancelled_shard_is_in_the_costs(tmp_path: Path) -> None:
    store = tmp_path / "store"
    index(store)
    passages = find_index(store, "test").located(store)["passages"]
    stage = Ask(store, passages, Questions(batch=5))
    done = [*stage_run(stage, cancel_at=1)]
    rows = sql(
        store, "SELECT shard, rows, tokens, finished, wall_seconds > 0 FROM costs WHERE stage = 'ask' ORDER BY 1"
    )
    assert rows == [(-1, 0, 0, True, True), (0, 5, 0, True, True), (1, 0, 7, False, True)]
    assert done == [0]
    stage.run("another")
    finished = "SELECT run_id, shard, finished FROM costs WHERE stage = 'ask' AND shard >= 0 ORDER BY 2, 3"
    assert sql(store, finished) == [("test", 0, True), ("test", 1, False), ("another", 1, True)]


def stage_run(stage: Ask, cancel_at: int) -> list[int]:
    """The shards that are done until one is cancelled in its middle, after seven tokens."""
    done: list[int] = []
    stage.run_preparation("test", lambda rows, tokens: None)

    def progress(rows: int, tokens: int) -> None:
        if len(done) == cancel_at:
            raise Cancelled

    class Halved(type(stage)):  # type: ignore[misc]
        def work(self, shard: int, tick: Any) -> Any:
            tick(0, 7)
            return super().work(shard, tick)

    stage.__class__ = Halved
    try:
        for shard in stage.shards():
            stage.run_shard(shard, "test", progress)
            done.append(shard)
    except Cancelled:
        stage.__class__ = Ask
    return done
