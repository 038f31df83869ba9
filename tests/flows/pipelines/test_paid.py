"""What was paid for is not paid for again after a run that ended, and is in the ledger: of every stage that asks a paid
model. `max_usd`: what a server charges never passes it, and more money goes on where it stopped."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import evaluating, tiny_models
from tests.support.fakes import Reply
from tests.support.paid import Corpus, PaidServer
from tests.support.prices import PER_TOKEN, priced
from tests.support.stages import staged
from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import Execution
from vitalfew.flows.pipelines import estimate
from vitalfew.flows.pipelines.estimate import AboveCap, check_cap
from vitalfew.flows.pipelines.evaluate import EvaluationPlan
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import StageProgress
from vitalfew.flows.ray_pool import Workers, ray_cluster
from vitalfew.storage import journals
from vitalfew.storage.runs import read_runs
from vitalfew.storage.upkeep import inventory, verify
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.models.causal.engines.budget import Budget, CapReached, NoPrice, capped, spending
from vitalfew.tasks.models.causal.engines.remote import FRAME_TOKENS, Unanswered
from vitalfew.tasks.stage import Stage

STAGES = ("generate", "critique", "label", "refine", "split")
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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed request is sent again at once."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.001)


def failing(server: PaidServer, fails: Callable[[str], bool]) -> set[str]:
    """Let the server fail on some prompts. Returns the others that it answers, as it does so."""
    reply, answered = server.behave, set[str]()

    def behave(path: str, body: Any, attempt: int) -> Reply:
        answer = reply(path, body, attempt)
        if not path.endswith("completions"):
            return answer
        if fails(prompt := body["messages"][0]["content"]):
            return Reply({"error": {"message": "out of memory"}}, status=503)
        answered.add(prompt)
        return answer

    server.behave = behave
    return answered


def rows(stage: Stage) -> pa.Table:
    """What a result is, without what was measured."""
    written = stage.artifact.completed().read(stage.store, stage.table)
    return written.drop_columns([name for name in written.column_names if name.endswith("seconds")])


def tokens(stage: Stage) -> int:
    return sum(row["tokens"] for row in pq.read_table(stage.artifact.ledger).to_pylist())


def interrupted(stage: Stage, after: int) -> bool:
    """A run that ends in the middle of a shard, once it has told of so many rows."""
    done = 0

    def progress(rows: int, tokens: int) -> None:
        nonlocal done
        done += rows
        if done >= after:
            raise KeyboardInterrupt

    try:
        stage.run("first", progress)
    except KeyboardInterrupt:
        return True
    return False


class Undisturbed:
    """What a run to the end, without a cap, asks, pays and gives, in a store of its own."""

    def __init__(self, corpus: Corpus, name: str, server: PaidServer) -> None:
        stage = corpus.copied(corpus.store.with_name("undisturbed")).stage(name, server.url)
        stage.run("alone")
        assert server.paid_again() == 0
        self.requests, self.tokens, self.rows = len(server.prompts()), tokens(stage), rows(stage)
        self.usd = usd(server)
        self.most = PER_TOKEN * (max(len(prompt.encode()) for prompt in server.prompts()) + FRAME_TOKENS + MAX_TOKENS)
        server.asked.clear()


@pytest.mark.parametrize("name", STAGES)
def test_nothing_is_asked_for_twice(corpus: Corpus, server: PaidServer, name: str) -> None:
    due = Undisturbed(corpus, name, server)
    stage = corpus.stage(name, server.url)
    assert interrupted(stage, 9)
    assert journals.paths(stage.artifact)
    assert 0 < len(server.prompts()) < due.requests
    stage.run("second")
    assert len(server.prompts()) == due.requests
    assert tokens(stage) == due.tokens == server.tokens_due()
    assert rows(stage).equals(due.rows)
    assert not journals.paths(stage.artifact)
    assert [*verify.verify([stage.artifact], lambda read: None)] == []


def test_a_local_model_computes_no_batch_twice(corpus: Corpus, tmp_path: Path) -> None:
    """Within a shard, whose batches are of one prompt or two."""
    model = tiny_models.llama(tmp_path / "llama", positions=2048)
    local = {"model": str(model), "precision": "fp32", "device": "cpu", "max_tokens": 4, "batch_tokens": 400}
    config = GenerateConfig(generator="transformers", temperature=0, **local)
    other = corpus.copied(corpus.store.with_name("undisturbed"))
    alone, due = (staged(Generate, each.store, each.asked, each.evidence(), config) for each in (other, corpus))
    alone.run("alone")
    assert interrupted(due, 6)
    (path,) = journals.paths(due.artifact)
    entries = journals.entries(path)
    path.write_bytes(path.read_bytes()[:-9])  # torn: that batch is computed again
    due.run("second")
    assert rows(due).equals(rows(alone))
    assert tokens(alone) <= tokens(due) <= tokens(alone) + 2 * entries[-1].tokens


@pytest.mark.usefixtures("impatient")
def test_an_outage_is_no_result(corpus: Corpus, server: PaidServer) -> None:
    due = Undisturbed(corpus, "generate", server)
    stage, works = corpus.stage("generate", server.url), server.behave
    answered = failing(server, lambda prompt: len(prompt) % 3 == 0)
    with pytest.raises(Unanswered, match=r"requests have no answer: .*out of memory.*run the same command again"):
        stage.run("first")
    assert stage.artifact.manifest() is None
    assert answered
    server.behave = works
    server.asked.clear()
    stage.run("second")
    assert not answered & {*server.prompts()}
    assert server.paid_again() == 0
    assert tokens(stage) == due.tokens
    assert rows(stage).equals(due.rows)


@pytest.mark.usefixtures("impatient")
def test_one_request_that_fails_holds_up_its_shard_alone(corpus: Corpus, server: PaidServer) -> None:
    stage, poison = corpus.stage("generate", server.url), list[str]()

    def fails(prompt: str) -> bool:
        poison.append(prompt)
        return prompt == poison[0]

    failing(server, fails)
    for run in ("first", "second"):
        with pytest.raises(Unanswered, match=r"^generate: 1 of \d+ requests"):
            stage.run(run)
        assert stage.pending() == [0]
    options = {"base_url": server.url, "accept_errors": True}
    config = GenerateConfig(generator="openai", model="tiny", temperature=0, **options)
    accepting = staged(Generate, corpus.store, corpus.asked, None, config)
    assert accepting.artifact == stage.artifact
    accepting.run("third")
    (error,) = [row["error"] for row in rows(accepting).to_pylist() if row["error"]]
    assert "out of memory" in error


@pytest.mark.parametrize("count", [-7, "many"])
def test_whatever_a_server_counts_its_answers_are_kept(corpus: Corpus, server: PaidServer, count: Any) -> None:
    reply = server.behave

    def behave(path: str, body: Any, attempt: int) -> Reply:
        answer = reply(path, body, attempt)
        if path.endswith("completions"):
            answer.body["usage"]["prompt_tokens"] = count
            answer.body["choices"][0]["message"]["content"] += "\ud83d"
        return answer

    server.behave = behave
    stage = corpus.stage("generate", server.url)
    assert interrupted(stage, 9)
    stage.run("second")
    assert server.paid_again() == 0
    assert {row["text"][-1] for row in rows(stage).to_pylist()} == {"\ufffd"}
    assert tokens(stage) == sum(server.usage(prompt)[1] for prompt in {*server.prompts()})


def test_what_an_unfinished_artifact_has_paid_is_known(corpus: Corpus, server: PaidServer) -> None:
    stage = corpus.stage("generate", server.url)
    assert interrupted(stage, 9)
    (path,) = journals.paths(stage.artifact)
    (entry,) = [entry for entry in inventory.survey(corpus.store) if entry.artifact == stage.artifact]
    assert (entry.state, entry.usd > 0) == ("unfinished", True)
    assert [*verify.verify([stage.artifact], lambda read: None)] == []
    path.write_bytes(path.read_bytes().replace(b"to ", b"no ", 1))
    (fault,) = verify.verify([stage.artifact], lambda read: None)
    assert "1 answers differ from what was written" in fault.what


# Caps


@pytest.fixture(autouse=True)
def _prices(tmp_path: Path) -> Iterator[None]:
    with priced(tmp_path, *MODELS):
        yield


def usd(server: PaidServer) -> float:
    """What the server has charged for all that it was asked."""
    return PER_TOKEN * sum(sum(server.usage(prompt)) for prompt in server.prompts())


@pytest.mark.parametrize("name", ["generate", "split"])
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
    assert PER_TOKEN * tokens(stage) == pytest.approx(due.usd)


def experiment(server: PaidServer) -> dict[str, Any]:
    generate = {"generator": "openai", "model": "tiny", "prompt": "short_answer", "base_url": server.url}
    generate |= {"temperature": 0, "concurrency": 4}
    return {
        "index": "test",
        "questions": {"sample": 24, "batch": 10},
        "generate": generate,
        "methods": {"none": {"retrieve": None}, "naive": {"retrieve": {"retriever": "bm25", "top_k": 1}}},
    }


def planned(store: Path, server: PaidServer, **given: Any) -> EvaluationPlan:
    plan = graph(evaluating.parameters(store, experiment(server), **given))
    assert isinstance(plan, EvaluationPlan)
    return plan


def test_both_halves_of_a_choice_have_one_cap(store: Path, server: PaidServer) -> None:
    chosen = experiment(server) | {"choose": {"retrieve.top_k": [1, 2], "by": "accuracy"}}
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

    with mock.patch.object(estimate, "quote", return_value=estimate.Quoted(rows=(), workers=1, requests_usd=0.0712)):
        for ask in (None, no):
            with pytest.raises(AboveCap, match=r"above the cap of 0\.0500 USD\. Nothing was sent.*--max-usd 0\.072\)"):
                check_cap(planned(store, server, max_usd=0.05), ask)
        check_cap(planned(store, server, max_usd=0.05), lambda question: True)
        check_cap(planned(store, server, max_usd=0.08), no)
    assert [question.startswith("The estimate is 0.0712 USD") for question in said] == [True]
    for plan in (planned(store, server), planned(store, server, max_usd=0.05, until_cap=True)):
        check_cap(plan)
        assert plan.quoted_usd is None
    assert server.prompts() == []


@pytest.mark.slow
def test_workers_of_ray_share_a_cap(corpus: Corpus, server: PaidServer) -> None:
    """Two processes of four threads each."""
    due = Undisturbed(corpus, "generate", server)
    stage, most = corpus.stage("generate", server.url), due.most + due.usd / 3
    stage.workers = None
    budget, pool = Budget(most), Workers(2)
    with ray_cluster(Execution(workers=2, store=corpus.store)), StageProgress("generate") as progress:
        with spending(budget), pytest.raises(CapReached):
            pool.run(stage, "first", progress)
        assert usd(server) == pytest.approx(budget.paid())
        assert due.usd / 3 < usd(server) <= most
        with spending(Budget(due.most * 9)):
            pool.run(stage, "second", progress)
    assert server.paid_again() == 0
    assert PER_TOKEN * tokens(stage) == pytest.approx(due.usd)


def test_a_model_without_a_price_is_told_before_anything_runs(store: Path, server: PaidServer) -> None:
    changed = experiment(server)
    changed["generate"]["model"] = "huge"
    plan = graph(evaluating.parameters(store, changed, max_usd=1))
    with pytest.raises(NoPrice, match=r"price of openai:huge"):
        check_cap(plan)
    assert not plan.manifest(plan.stages[0])
    with pytest.raises(ConfigError, match="max_usd"):
        planned(store, server, max_usd=-1)
