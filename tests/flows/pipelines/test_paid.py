"""What was paid for is not paid for again after a kill, and is in the ledger: of every stage that asks a paid model."""

import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from tests.support.fakes import Reply
from tests.support.paid import CONCURRENCY, Corpus, PaidServer
from tests.support.stages import staged
from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.storage import files, journals
from vitalfew.storage.upkeep import inventory, verify
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.models.causal.engines.remote import Unanswered
from vitalfew.tasks.stage import Stage

ROOT = Path(__file__).parents[3]
STAGES = ("generate", "critique", "label", "refine", "split")
RUN = "import pickle, sys; stage = pickle.load(sys.stdin.buffer)\nwith stage.artifact.locked(): stage.run(sys.argv[1])"


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


def killed(stage: Stage, server: PaidServer, after: int, delay: float = 0.0) -> bool:
    """Run a stage in a process of its own, and kill it once so many more requests have come, `delay` seconds later."""
    process = subprocess.Popen([sys.executable, "-c", RUN, f"killed-{after}"], stdin=subprocess.PIPE, cwd=ROOT)
    last = len(server.prompts()) + after

    def watch(requests: int) -> None:
        if requests >= last:
            time.sleep(delay)
            process.kill()

    server.watch = watch
    process.communicate(pickle.dumps(stage))
    server.watch = lambda requests: None
    server.wait()
    assert process.returncode in (0, -signal.SIGKILL)
    return process.returncode != 0


class Undisturbed:
    """What a run without a kill asks, pays and gives, in a store of its own."""

    def __init__(self, corpus: Corpus, name: str, server: PaidServer) -> None:
        stage = corpus.copied(corpus.store.with_name("undisturbed")).stage(name, server.url)
        stage.run("alone")
        assert server.paid_again() == 0
        self.requests, self.tokens, self.rows = len(server.prompts()), tokens(stage), rows(stage)
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


def test_a_run_that_was_killed_pays_for_the_rest_alone(corpus: Corpus, server: PaidServer) -> None:
    due = Undisturbed(corpus, "generate", server)
    stage = corpus.stage("generate", server.url)
    assert killed(stage, server, after=7)
    asked = {*server.prompts()}
    paid = journals.entries(journals.place(stage.artifact, 0))
    assert 7 - CONCURRENCY <= len(paid) <= len(asked) <= 7 + CONCURRENCY
    stage.run("second")
    assert server.paid_again() <= CONCURRENCY
    assert server.paid_again() == len(asked) - len(paid)
    assert tokens(stage) == due.tokens == server.tokens_due()
    assert rows(stage).equals(due.rows)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", ["generate", "refine", "split"])
def test_an_outage_is_no_result(corpus: Corpus, server: PaidServer, name: str) -> None:
    due = Undisturbed(corpus, name, server)
    stage, works = corpus.stage(name, server.url), server.behave
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


@pytest.mark.parametrize("count", [-7, float("inf"), "many", None])
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


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 30), max_size=4))
def test_whenever_and_however_often_a_run_ends(indexed: Corpus, server: PaidServer, ends: list[int]) -> None:
    """The ledger is the server's own count, of every answer once."""
    store = indexed.store.with_name("ends")
    stage = indexed.copied(store).stage("generate", server.url)
    server.asked.clear()
    for after in ends:
        interrupted(stage, after)
    stage.run("last")
    assert server.paid_again() == 0
    assert tokens(stage) == server.tokens_due()
    files.remove_tree(store)


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path: Path, server: PaidServer) -> None:
    corpus = Corpus(tmp_path / "store", questions=200, batch=48)
    stage = corpus.stage("generate", server.url)
    moments = random.Random(8)
    kills = 0
    while kills < 20:
        kills += killed(stage, server, moments.randint(1, 9), moments.choice([0, moments.random() / 50]))
        assert stage.artifact.manifest() is None, "more questions are due for as many kills"
    stage.run("last")
    distinct = {*server.prompts()}
    assert len(distinct) == len(rows(stage)["prompt_id"].unique())
    assert len(server.prompts()) <= len(distinct) + kills * CONCURRENCY
    assert tokens(stage) == server.tokens_due()
