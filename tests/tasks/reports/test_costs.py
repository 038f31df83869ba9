"""One account: what a report's methods took is what `vitalfew costs` says that the run paid, beside what it would have
cost if nothing had been known."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import copied, run
from tests.support.indexing import sql
from tests.support.shared import indexed
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.tasks.reports.contents import Report, StageCost

SHARDS: dict[str, Any] = {
    "index": "test",
    "questions": {"batch": 6},
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "retrieve": {"top_k": 5},
    "methods": {
        "none": {"retrieve": None},
        "naive": {"retrieve": {"retriever": "passage"}},
        "pareto": {"retrieve": {"retriever": "core_context"}},
    },
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(indexed(), tmp_path_factory.mktemp("costs") / "store")


@pytest.fixture(scope="module")
def first(store: Path) -> Evaluated:
    return run(store, SHARDS)


def spent(store: Path, outcome: Evaluated, where: str = "true") -> tuple[float, float]:
    """USD and CPU seconds of a run, by the macro that `vitalfew costs` asks."""
    query = f"SELECT sum(usd), sum(cpu_seconds) FROM spending('{outcome.run.run_id}') WHERE {where}"
    [(usd, cpu)] = sql(store, query)
    return usd, cpu


WORK = "stage <> 'loading'"
"""What no method's costs hold is left out."""


def once(report: Report) -> list[StageCost]:
    return [cost for method in report.methods for cost in method.costs if not (cost.shared or cost.reused)]


def test_the_methods_with_each_shared_stage_once_are_the_runs_total(store: Path, first: Evaluated) -> None:
    report = first.report.report
    assert (report.paid.usd, report.paid.cpu_seconds) == pytest.approx(spent(store, first), rel=1e-12)
    usd, cpu = spent(store, first, WORK)
    assert usd > 0
    assert report.paid.usd - report.paid.loading_usd == pytest.approx(usd, rel=1e-9)
    assert sum(cost.usd for cost in once(report)) == pytest.approx(usd, rel=1e-12)
    assert sum(cost.cpu_seconds for cost in once(report)) == pytest.approx(cpu, rel=1e-12)
    assert [cost.stage for cost in report.methods[1].costs if cost.shared] == ["ask"]
    # The table's figure is of all stages, per question: shared ones are in every method that has them.
    shared = sum(cost.usd for method in report.methods for cost in method.costs if cost.shared)
    table = sum(value or 0 for value in report.values("stage_usd")) * report.asked.questions
    assert table - shared == pytest.approx(usd, rel=1e-9)


def test_what_was_lost_and_done_again_is_in_the_account(store: Path, first: Evaluated) -> None:
    (file, *_) = first.methods["pareto"]["generate"].files()
    (store / file.path).unlink()
    again = run(store, SHARDS)
    report = again.report.report
    usd, _ = spent(store, again)
    assert report.paid.usd == pytest.approx(usd, rel=1e-12)
    assert report.paid.earlier_usd == pytest.approx(spent(store, first, WORK)[0], rel=1e-12)
    of_file = f"fingerprint = '{file.path.split('/')[1]}'"
    [(generate,)] = sql(store, f"SELECT sum(usd) FROM costs WHERE {of_file} AND {WORK}")
    (cost,) = [cost for cost in report.methods[2].costs if cost.stage == "generate"]
    assert cost.usd == pytest.approx(generate, rel=1e-12)
    assert cost.usd > next(cost.usd for cost in first.report.report.methods[2].costs if cost.stage == "generate")


# As if nothing had been known


def generated(outcome: Evaluated) -> list[StageCost]:
    return [cost for method in outcome.report.report.methods for cost in method.costs if cost.stage == "generate"]


def test_a_second_evaluation_costs_the_same_if_nothing_had_been_known(tmp_path: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    settings = {**SHARDS, "generate": {"generator": "tests.support.fakes:SlowWords"}}
    first = generated(run(store, settings))
    outcome = run(store, {**settings, "questions": {}})  # in other shards, the same answers
    again, report = generated(outcome), outcome.report.report
    for before, now in zip(first, again, strict=True):
        assert before.paid_usd == pytest.approx(before.whole_usd)
        assert now.paid_usd < before.paid_usd / 2
        assert 0.7 < now.whole_usd / before.whole_usd < 2  # on top comes what a shard takes by itself
    paid, whole = (sum(value or 0 for value in report.values(metric)) for metric in ("paid_usd", "stage_usd"))
    assert paid < whole
    spending = f"FROM spending('{outcome.run.run_id}') WHERE stage = 'generate'"
    [(paid, known)] = sql(store, f"SELECT sum(usd), sum(usd_nothing_known) {spending}")
    assert paid == pytest.approx(sum(cost.paid_usd for cost in again))
    assert known == pytest.approx(sum(cost.whole_usd for cost in again))
