"""`max_usd`: what a server charges never passes it, what was paid is kept, and more money goes on where it stopped."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.support import evaluating
from tests.support.evaluating import copied, searchable
from tests.support.paid import Corpus, PaidServer
from tests.support.prices import PER_TOKEN, priced
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import Execution
from vitalfew.flows.pipelines.evaluate import EvaluationPlan
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.quote import cap
from vitalfew.flows.pipelines.quote.cap import AboveCap, check_cap
from vitalfew.flows.pipelines.run import StageProgress
from vitalfew.flows.ray_pool import Workers, ray_cluster
from vitalfew.storage.costs import read_ledger
from vitalfew.storage.runs import read_runs
from vitalfew.tasks.models.causal.engines.cap import CapReached, NoPrice, Purse, capped, spending
from vitalfew.tasks.models.causal.engines.remote import FRAME_TOKENS
from vitalfew.tasks.stage import Stage

STAGES = ("generate", "critique", "split")
MODELS = ("openai:tiny", "judge:tiny", "tests.support.paid:Lister")
MAX_TOKENS = 150


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("indexed"))


@pytest.fixture
def corpus(indexed: Corpus, tmp_path: Path) -> Corpus:
    return indexed.copied(tmp_path / "store")


@pytest.fixture
def server() -> Iterator[PaidServer]:
    with PaidServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _prices(tmp_path: Path) -> Iterator[None]:
    with priced(tmp_path, *MODELS):
        yield


def usd(server: PaidServer) -> float:
    """What the server has charged for all that it was asked."""
    return PER_TOKEN * sum(sum(server.usage(prompt)) for prompt in server.prompts())


class Undisturbed:
    """What a stage without a cap asks and pays, in a store of its own."""

    def __init__(self, corpus: Corpus, name: str, server: PaidServer) -> None:
        stage = corpus.copied(corpus.store.with_name("undisturbed")).stage(name, server.url)
        stage.run("alone")
        self.requests, self.usd = len(server.prompts()), usd(server)
        self.most = PER_TOKEN * (max(len(prompt.encode()) for prompt in server.prompts()) + FRAME_TOKENS + MAX_TOKENS)
        server.asked.clear()


def paid(stage: Stage) -> float:
    return PER_TOKEN * sum(row["tokens"] for row in read_ledger(stage.artifact.ledger))


@pytest.mark.parametrize("name", STAGES)
def test_more_money_goes_on_where_the_cap_stopped(corpus: Corpus, server: PaidServer, name: str) -> None:
    due = Undisturbed(corpus, name, server)
    stage, most = corpus.stage(name, server.url), due.most + due.usd / 3
    with capped(most), pytest.raises(CapReached):
        stage.run("first")
    charged = usd(server)
    assert 0 < charged <= most
    assert len(server.prompts()) < due.requests
    with capped(0), pytest.raises(CapReached):
        stage.run("nothing")
    assert usd(server) == charged
    with capped(due.most + due.usd):
        stage.run("second")
    assert server.paid_again() == 0
    assert usd(server) == pytest.approx(due.usd)
    assert paid(stage) == pytest.approx(due.usd)


def settings(server: PaidServer) -> dict[str, Any]:
    generate = {"generator": "openai", "model": "tiny", "temperature": 0, "base_url": server.url, "concurrency": 4}
    return {
        "index": "test",
        "questions": {"sample": 24, "batch": 10},
        "generate": generate,
        "methods": {"none": {"retrieve": None}, "naive": {"retrieve": {"retriever": "bm25", "top_k": 1}}},
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copied(searchable(), tmp_path / "store")


def planned(store: Path, server: PaidServer, **given: Any) -> EvaluationPlan:
    plan = graph(evaluating.parameters(store, settings(server), **given))
    assert isinstance(plan, EvaluationPlan)
    return plan


def test_a_run_says_what_was_paid_and_what_is_left(store: Path, server: PaidServer) -> None:
    with pytest.raises(CapReached) as first:
        evaluating.run(store, settings(server), max_usd=1.2)
    charged, asked = usd(server), len(server.prompts())
    assert 0 < charged <= 1.2
    said = str(first.value)
    assert said.startswith(f"the cap of 1.2000 USD is reached: {charged:.4f} USD are paid")
    assert f"Generate: {asked} of 24 prompts are answered; the rest is quoted at " in said
    assert "run the same command with --max-usd " in said
    run = read_runs(store)[-1]
    assert (run.state, run.config["max_usd"]) == ("failed", 1.2)
    with pytest.raises(CapReached, match=rf"earlier runs have paid {charged:.4f} USD"):
        evaluating.run(store, settings(server), max_usd=0)
    outcome = evaluating.run(store, settings(server), max_usd=50)
    assert server.paid_again() == 0
    assert outcome.run.state == "completed"


def test_both_halves_of_a_choice_have_one_cap(store: Path, server: PaidServer) -> None:
    chosen = settings(server) | {"choose": {"retrieve.top_k": [1, 2], "by": "accuracy"}}
    chosen |= {"questions": {"sample": 24, "batch": 10}, "methods": {"naive": {"retrieve": {"retriever": "bm25"}}}}
    with pytest.raises(CapReached):
        evaluating.run(store, chosen, max_usd=2)
    assert 0 < (before := usd(server)) <= 2
    with suppress(CapReached):
        evaluating.run(store, chosen, max_usd=2)
    assert before < usd(server) <= before + 2
    evaluating.run(store, chosen, max_usd=20)
    assert server.paid_again() == 0
    assert [run.state for run in read_runs(store)][-2:] == ["completed", "completed"]


def test_a_quote_above_the_cap_asks_first(store: Path, server: PaidServer) -> None:
    said: list[str] = []

    def no(question: str) -> bool:
        said.append(question)
        return False

    with mock.patch.object(cap, "requests_usd", return_value=0.0712):
        with pytest.raises(AboveCap, match=r"above the cap of 0\.0500 USD\. Nothing was sent.*--max-usd 0\.072\)"):
            check_cap(planned(store, server, max_usd=0.05))
        with pytest.raises(AboveCap):
            check_cap(planned(store, server, max_usd=0.05), no)
        check_cap(planned(store, server, max_usd=0.05), lambda question: True)
        check_cap(planned(store, server, max_usd=0.08), no)
    (question,) = said
    assert question.startswith("The quote is 0.0712 USD")
    assert question.endswith("Go on until the cap?")
    for plan in (planned(store, server), planned(store, server, max_usd=0.05, until_cap=True)):
        check_cap(plan)
        assert plan.quoted_usd is None
    assert server.prompts() == []


def test_a_model_without_a_price_is_told_before_anything_runs(store: Path, server: PaidServer) -> None:
    changed = settings(server)
    changed["generate"]["model"] = "huge"
    plan = graph(evaluating.parameters(store, changed, max_usd=1))
    with pytest.raises(NoPrice, match=r"price of openai:huge"):
        check_cap(plan)
    assert not plan.manifest(plan.stages[0])


def test_what_is_no_amount(store: Path, server: PaidServer) -> None:
    for wrong in (-1, "nan"):
        with pytest.raises(ConfigError, match="max_usd"):
            planned(store, server, max_usd=wrong)


@pytest.mark.slow
def test_workers_of_ray_share_a_cap(corpus: Corpus, server: PaidServer) -> None:
    """Two processes of four threads each."""
    due = Undisturbed(corpus, "generate", server)
    stage, most = corpus.stage("generate", server.url), due.most + due.usd / 3
    stage.workers = None
    purse, pool = Purse.of(most), Workers(2)
    with ray_cluster(Execution(workers=2, store=corpus.store)), StageProgress("generate") as progress:
        with spending(purse), pytest.raises(CapReached):
            pool.run(stage, "first", progress)
        assert usd(server) == pytest.approx(purse.till.paid())
        assert due.usd / 3 < usd(server) <= most
        with spending(Purse.of(due.most * 9)):
            pool.run(stage, "second", progress)
    assert server.paid_again() == 0
    assert paid(stage) == pytest.approx(due.usd)
