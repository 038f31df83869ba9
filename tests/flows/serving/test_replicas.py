"""Replicas on a Ray cluster: nothing is lost with one, and answers, errors and limits are those of one process."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.evaluating import searchable
from tests.support.indexing import index
from tests.support.ray_nodes import ROOT, Nodes, three_nodes
from tests.support.serving import EXPERIMENT, PATIENCE, until
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.answering import Answering, RagAnswer, configured
from vitalfew.flows.serving import searching
from vitalfew.flows.serving.batching import Bounds, Closed, Full, Lost
from vitalfew.flows.serving.replicas import Outcome, Replicas, ReplicasLine, portable
from vitalfew.storage.runs import find_index, save_index
from vitalfew.tasks.datasets.base import InputError

# Without a cluster


def test_replicas_are_a_number_or_a_range() -> None:
    assert Replicas.parse("2") == Replicas(2, 2)
    assert Replicas.parse("2-8") == Replicas(2, 8)
    for text in ("", "0", "8-2", "two", "1-", "-1", "1-2-3"):
        with pytest.raises(ConfigError, match="--replicas"):
            Replicas.parse(text)


class Unpicklable(ValueError):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def test_an_error_travels_or_is_named() -> None:
    error = portable(InputError("the question is empty"))
    assert (type(error), str(error)) == (InputError, "the question is empty")
    named = portable(Unpicklable("a", "b"))
    assert (type(named), str(named)) == (RuntimeError, "Unpicklable")


@dataclass
class FakeHandle:
    """Stands for Ray Serve's handle: answers with the next of `outcomes`, an exception is raised; waits while empty."""

    outcomes: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    cancelled: int = 0

    def remote(self, task: str, item: Any, size: int) -> "FakeHandle":
        self.asked.append(item)
        return self

    def __await__(self) -> Iterator[Any]:
        return self._outcome().__await__()

    async def _outcome(self) -> Any:
        while not self.outcomes:
            await asyncio.sleep(0.001)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def cancel(self) -> None:
        self.cancelled += 1


@pytest.fixture
def line() -> Iterator[ReplicasLine]:
    notes: list[bool] = []
    made = ReplicasLine("small", FakeHandle(), Bounds(room=2), notes.append)
    made.notes = notes  # type: ignore[attr-defined]
    made.start()
    yield made
    made.close(PATIENCE)


def asked(line: ReplicasLine, item: str = "?") -> "Future[Any]":
    return line.submit("answer", item, len(item))


def test_a_request_of_a_lost_replica_is_asked_again_and_no_other(line: Any) -> None:
    from ray.exceptions import ActorDiedError, ActorUnavailableError

    line.compute.outcomes = [ActorDiedError(), ActorUnavailableError("gone", b"0" * 16), Outcome("yes")]
    assert asked(line, "first").result(PATIENCE) == "yes"
    line.compute.outcomes = [Outcome("no")]
    assert asked(line, "second").result(PATIENCE) == "no"
    assert (line.compute.asked, line.again) == (["first"] * 3 + ["second"], 2)
    assert line.notes == [True, True]


def test_a_request_that_every_replica_is_lost_with_is_given_up(line: Any) -> None:
    from ray.exceptions import ActorDiedError

    line.compute.outcomes = [ActorDiedError() for _ in range(9)]
    with pytest.raises(Lost, match="4 replicas of small were lost"):
        asked(line).result(PATIENCE)
    assert (len(line.compute.asked), line.again, line.notes) == (4, 3, [False])


def test_the_error_of_the_work_is_not_asked_again(line: Any) -> None:
    line.compute.outcomes = [Outcome(error=InputError("it has no index"))]
    with pytest.raises(InputError, match="it has no index"):
        asked(line).result(PATIENCE)
    assert len(line.compute.asked) == 1


def test_a_full_line_refuses_and_a_request_that_is_cancelled_leaves_it(line: Any) -> None:
    first, second = asked(line, "a"), asked(line, "b")
    until(lambda: len(line.compute.asked) == 2)
    with pytest.raises(Full):
        asked(line, "c")
    first.cancel()
    until(lambda: line.waiting == 1)
    until(lambda: line.compute.cancelled == 1)
    line.compute.outcomes = [Outcome(1)]
    assert second.result(PATIENCE) == 1
    with pytest.raises(CancelledError):
        first.result(PATIENCE)


def test_a_closed_line_finishes_what_it_accepted(line: Any) -> None:
    accepted = asked(line)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(line.close, PATIENCE)
        until(lambda: line._closed)
        with pytest.raises(Closed):
            asked(line)
        line.compute.outcomes = [Outcome("done")]
        closing.result(PATIENCE)
    assert accepted.result(0) == "done"


# On three nodes


@dataclass
class RunningServer:
    """The process of `vitalfew serve --runner ray`, and the folder by which its replicas are held."""

    process: "subprocess.Popen[str]"
    address: str
    folder: Path

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=PATIENCE)

    def answer(self, question: str, model: str | None = None) -> httpx.Response:
        with self.client() as client:
            return client.post("/answer", json={"question": question, "model": model})

    def figure(self, name: str) -> float:
        found = re.search(rf"^vitalfew_{name}{{.*}} (\S+)$", httpx.get(f"{self.address}/metrics").text, re.MULTILINE)
        assert found
        return float(found[1])

    def begun(self) -> list[tuple[int, str]]:
        """The process and the question of everything that a replica began to compute, but for what warmed it."""
        lines = (self.folder / "begun").read_text().splitlines()
        split = (line.partition(" ") for line in lines)
        return [(int(number), question) for number, _, question in split if question.startswith("Who")]

    @contextmanager
    def halted(self) -> Iterator[None]:
        (self.folder / "halt").touch()
        try:
            yield
        finally:
            (self.folder / "halt").unlink()

    def end(self) -> str:
        """End it as an operator does; its output."""
        self.process.send_signal(signal.SIGTERM)
        rest = self.process.communicate(timeout=PATIENCE)[0]
        assert self.process.returncode == 0, rest
        return rest


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    folder = Path("/tmp") / f"serve-{os.getpid()}"  # sockets of Unix have short names
    folder.mkdir()
    with three_nodes(folder, apart=True) as nodes:
        yield nodes
    shutil.rmtree(folder)


@contextmanager
def serving(nodes: Nodes, folder: Path, *methods: str, store: Path, replicas: int = 2) -> Iterator[RunningServer]:
    """A server whose experiment no node sees. What is left of it ends with the block."""
    file = nodes.driver / "trial.yaml"
    file.write_text(EXPERIMENT.replace("FirstWords", "HaltedWords"))
    (folder / "begun").touch()
    names = "".join(f"  {method}: {{method: '{file}:{method}'}}\n" for method in methods)
    (nodes.driver / "serve.yaml").write_text(f"index: test\nconfigurations:\n{names}")
    words = ["serve", str(nodes.driver / "serve.yaml"), "--store", str(store), "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "vitalfew.flows.cli", *words, "--runner", "ray", "--replicas", str(replicas)],
        cwd=nodes.driver,
        env={
            **nodes.environment,
            "PYTHONPATH": str(ROOT),
            "VITALFEW_TEST_HALT": str(folder),
            "VITALFEW_SERVE_KEYS": "",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield RunningServer(process, _address(process), folder)
    finally:
        process.kill()
        process.wait()
        until(lambda: not _replicas())


def _address(process: "subprocess.Popen[str]") -> str:
    printed = ""
    assert process.stdout
    for line in process.stdout:
        printed += line
        if line.startswith("Ready"):
            break
    found = re.search(r"Address: (http://\S+)", printed)
    assert found, printed
    return found[1]


def _replicas() -> list[psutil.Process]:
    """The processes of the replicas on this machine."""
    return [each for each in psutil.process_iter(["name", "cmdline"]) if "ServeReplica" in str(each.info["cmdline"])]


def answering(nodes: Nodes, store: Path, method: str) -> Answering:
    return Answering(store, configured(store, f"{nodes.driver / 'trial.yaml'}:{method}", "test"))


def same(answer: dict[str, Any], expected: RagAnswer) -> bool:
    contexts = [context["text"] for context in answer["contexts"]]
    return (answer["text"], contexts, answer["fingerprint"]) == (
        expected.text,
        [context.text for context in expected.contexts],
        expected.fingerprint,
    )


def questions(count: int) -> list[str]:
    return [f"Who founded the town of Velmar in the year {1000 + number}?" for number in range(count)]


@pytest.mark.slow
def test_a_replica_that_is_killed_loses_no_request(nodes: Nodes, tmp_path: Path) -> None:
    texts = questions(24)
    with serving(nodes, tmp_path, "sentences", store=searchable()) as server, ThreadPoolExecutor(24) as pool:
        with server.halted():
            waiting = [pool.submit(server.answer, text) for text in texts]
            until(lambda: server.figure("waiting") == len(texts))
            until(lambda: len({number for number, _ in server.begun()}) == 2)
            killed = server.begun()[0][0]
            lost = [question for number, question in server.begun() if number == killed]
            psutil.Process(killed).kill()
            psutil.wait_procs([psutil.Process(killed)] if psutil.pid_exists(killed) else [], PATIENCE)
            until(lambda: server.figure("computed_again") >= len(lost))
        answers = [future.result() for future in waiting]
        assert {answer.status_code for answer in answers} == {200}
        expected = answering(nodes, searchable(), "sentences").answer(texts)
        assert all(same(answer.json(), each) for answer, each in zip(answers, expected, strict=True))
        # What the other replica was computing meanwhile is computed once.
        assert Counter(question for _, question in server.begun()) == Counter([*texts, *lost])
        assert len(lost) <= server.figure("computed_again") < len(texts)
        until(lambda: server.answer(texts[0]).is_success and len({number for number, _ in server.begun()}) == 3)
        assert "a replica was lost" in server.end()
    assert _replicas() == []
