"""What was paid for is not paid for again after a kill, and is in the ledger: of every stage that asks a paid model."""

import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.paid import CONCURRENCY, Corpus, PaidServer
from vitalfew.storage import files, journals
from vitalfew.storage.upkeep import inventory, removal, verify
from vitalfew.storage.upkeep.inventory import Policy
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


def rows(stage: Stage) -> pa.Table:
    """What a result is, without what was measured."""
    written = stage.artifact.completed().read(stage.store, stage.table)
    return written.drop_columns(["seconds"] if "seconds" in written.column_names else [])


def ledger(stage: Stage) -> list[dict[str, Any]]:
    return pq.read_table(stage.artifact.ledger).to_pylist()


def tokens(stage: Stage) -> int:
    return sum(row["tokens"] for row in ledger(stage))


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
    first = next(row for row in ledger(stage) if row["shard"] == 0)
    assert first["wall_seconds"] > max(entry.wall_seconds for entry in paid) > 0


def test_failures_are_asked_for_again_and_answers_of_no_use_are_not(corpus: Corpus, server: PaidServer) -> None:
    reply = server.behave

    def behave(path: str, body: Any, attempt: int) -> Any:
        answer = reply(path, body, attempt)
        number = len(server.prompts())
        if path.endswith("completions") and number == 3:
            answer.status, answer.body = 400, {"error": {"message": "not today"}}
        if path.endswith("completions") and number == 4:
            answer.body = {"usage": answer.body["usage"], "choices": None}
        return answer

    server.behave = behave
    stage = corpus.stage("generate", server.url)
    assert interrupted(stage, 9)
    stage.run("second")
    assert server.paid_again() == 1
    errors = [row["error"] for row in rows(stage).to_pylist() if row["error"]]
    assert len(errors) == 1
    assert "cannot be used" in errors[0]
    assert tokens(stage) == server.tokens_due()


def test_what_an_unfinished_artifact_has_paid_is_known(corpus: Corpus, server: PaidServer) -> None:
    stage = corpus.stage("generate", server.url)
    assert interrupted(stage, 9)
    (path,) = journals.paths(stage.artifact)
    paid = sum(entry.tokens for entry in journals.entries(path))
    (entry,) = [entry for entry in inventory.survey(corpus.store) if entry.artifact == stage.artifact]
    assert (entry.state, entry.usd > 0) == ("unfinished", True)
    assert [*verify.verify([stage.artifact], lambda read: None)] == []
    content = path.read_bytes()
    path.write_bytes(content + content[:50])  # torn
    assert [*verify.verify([stage.artifact], lambda read: None)] == []
    path.write_bytes(content.replace(b"to ", b"no ", 1))
    (fault,) = verify.verify([stage.artifact], lambda read: None)
    assert "1 answers differ from what was written" in fault.what
    path.write_bytes(content)
    policy = Policy()
    plan = removal.plan(corpus.store, policy)
    going = [each for each in plan.removals if each.name == stage.artifact.name]
    assert [why for _, why in removal.remove(corpus.store, going, policy)] == [None]
    assert not files.exists(path)
    assert tokens(stage) == paid


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
    print(f"{kills} kills: {len(server.prompts())} requests for {len(distinct)} prompts, {tokens(stage)} tokens")
