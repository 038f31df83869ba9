"""One account: what a report's methods took is what `vitalfew costs` says that the run paid."""

from pathlib import Path
from typing import Any

import pytest

from tests.flows.pipelines.test_evaluate import THREE, run
from tests.support.evaluating import copied
from tests.support.indexing import sql
from tests.support.shared import indexed
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.tasks.reports.contents import Report, StageCost
from vitalfew.tasks.reports.shown.notes import paid

SHARDS: dict[str, Any] = {**THREE, "questions": {"batch": 6}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(indexed(), tmp_path_factory.mktemp("costs") / "store")


@pytest.fixture(scope="module")
def first(store: Path) -> Evaluated:
    return run(store, SHARDS)


def spent(store: Path, outcome: Evaluated) -> tuple[float, float]:
    """USD and CPU seconds of a run, by the macro that `vitalfew costs` asks."""
    [(usd, cpu)] = sql(store, f"SELECT sum(usd), sum(cpu_seconds) FROM spending('{outcome.run.run_id}')")
    return usd, cpu


def once(report: Report) -> list[StageCost]:
    return [cost for method in report.methods for cost in method.costs if not (cost.shared or cost.reused)]


def test_the_methods_with_each_shared_stage_once_are_the_runs_total(store: Path, first: Evaluated) -> None:
    report = first.report.report
    usd, cpu = spent(store, first)
    assert usd > 0
    assert sum(cost.usd for cost in once(report)) == pytest.approx(usd, rel=1e-12)
    assert sum(cost.cpu_seconds for cost in once(report)) == pytest.approx(cpu, rel=1e-12)
    assert (report.paid.usd, report.paid.cpu_seconds) == pytest.approx((usd, cpu), rel=1e-12)
    assert [cost.stage for cost in report.methods[1].costs if cost.shared] == ["ask"]
    # The table's figure is of all stages, per question: shared ones are in every method that has them.
    shared = sum(cost.usd for method in report.methods for cost in method.costs if cost.shared)
    table = sum(value or 0 for value in report.values("stage_usd")) * report.asked.questions
    assert table - shared == pytest.approx(usd, rel=1e-9)


def test_what_an_earlier_run_paid_is_told_apart(store: Path, first: Evaluated) -> None:
    again = run(store, {**SHARDS, "retrieve": {"top_k": 4}})
    report = again.report.report
    assert report.paid.usd == pytest.approx(spent(store, again)[0], rel=1e-12)
    assert sum(cost.usd for cost in once(report)) == pytest.approx(report.paid.usd, rel=1e-12)
    assert {"ask", "encode_questions"} <= {*report.paid.earlier_stages}
    assert "Reused and not paid again (" in paid(report)[0]


def test_what_was_lost_and_done_again_is_in_the_account(store: Path, first: Evaluated) -> None:
    (file, *_) = first.methods["pareto"]["generate"].files()
    (store / file.path).unlink()
    again = run(store, SHARDS)
    report = again.report.report
    usd, _ = spent(store, again)
    assert report.paid.usd == pytest.approx(usd, rel=1e-12)
    assert report.paid.earlier_usd == pytest.approx(spent(store, first)[0], rel=1e-12)
    [(generate,)] = sql(store, f"SELECT sum(usd) FROM costs WHERE fingerprint = '{file.path.split('/')[1]}'")
    (cost,) = [cost for cost in report.methods[2].costs if cost.stage == "generate"]
    assert cost.usd == pytest.approx(generate, rel=1e-12)
    assert cost.usd > next(cost.usd for cost in first.report.report.methods[2].costs if cost.stage == "generate")
