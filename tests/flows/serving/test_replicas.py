"""Replicas on a Ray cluster: nothing is lost with one, and answers, errors and limits are those of one process."""

import asyncio
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import psutil
import pytest

from tests.flows.serving.test_command import until_ready
from tests.support.evaluating import searchable
from tests.support.indexing import index
from tests.support.ray_nodes import ROOT, Nodes, wait_for
from tests.support.serving import EXPERIMENT, PATIENCE, until
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.answering import Answering, RagAnswer, configured
from vitalfew.flows.serving.batching import Bounds, Lost
from vitalfew.flows.serving.replicas import ReplicaResult, Replicas, ReplicasLine
from vitalfew.storage import generations

# Without a cluster


def test_replicas_are_a_number_or_a_range() -> None:
    assert Replicas.parse("2") == Replicas(2, 2)
    assert Replicas.parse("2-8") == Replicas(2, 8)
    for text in ("0", "8-2", "two", "1-2-3"):
        with pytest.raises(ConfigError, match="--replicas"):
            Replicas.parse(text)


@dataclass
class FakeHandle:
    """Stands for Ray Serve's handle: answers with the next of `outcomes`, an exception is raised; waits while empty."""

    outcomes: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

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
        """Nothing is under way."""


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

    line.compute.outcomes = [ActorDiedError(), ActorUnavailableError("gone", b"0" * 16), ReplicaResult("yes")]
    assert asked(line, "first").result(PATIENCE) == "yes"
    line.compute.outcomes = [ReplicaResult("no")]
    assert asked(line, "second").result(PATIENCE) == "no"
    assert (line.compute.asked, line.again) == (["first"] * 3 + ["second"], 2)
    assert line.notes == [True, True]


def test_where_no_replica_starts_what_waits_is_refused_and_what_comes_until_one_is_warmed(line: Any) -> None:
    waiting = asked(line)
    until(lambda: line.compute.asked)
    line.fail()
    for refused in (lambda: waiting.result(PATIENCE), lambda: asked(line)):
        with pytest.raises(Lost, match="no replica of small could be started"):
            refused()
    warmed = line.submit("warm", "?", 1)
    line.compute.outcomes = [ReplicaResult("warm"), ReplicaResult("yes")]
    assert (warmed.result(PATIENCE), asked(line).result(PATIENCE)) == ("warm", "yes")
    assert line.notes == [False, True, True]


# On three nodes

soon = partial(wait_for, seconds=PATIENCE)


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
        found = re.search(
            rf"^vitalfew_{name}{{.*}} (\S+)$", httpx.get(f"{self.address}/metrics", timeout=PATIENCE).text, re.M
        )
        assert found
        return float(found[1])

    def begun(self) -> list[tuple[int, str]]:
        """The process and the question of everything that a replica began to compute, but for what warmed it."""
        split = (line.partition(" ") for line in (self.folder / "begun").read_text().splitlines())
        return [(int(number), question) for number, _, question in split]

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


@contextmanager
def serving(
    nodes: Nodes,
    folder: Path,
    *methods: str,
    store: Path,
    replicas: str = "2",
) -> Iterator[RunningServer]:
    """A server whose experiment no node sees. What is left of it ends with the block."""
    file = nodes.driver / "trial.yaml"
    file.write_text(EXPERIMENT.replace("FirstWords", "HaltedWords"))
    (folder / "begun").touch()
    names = "".join(f"  {method}: {{method: '{file}:{method}'}}\n" for method in methods)
    (nodes.driver / "serve.yaml").write_text(f"index: test\nconfigurations:\n{names}")
    words = ["serve", str(nodes.driver / "serve.yaml"), "--store", str(store), "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "vitalfew.flows.cli", *words, "--runner", "ray", "--replicas", replicas],
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
        assert process.stdout
        yield RunningServer(process, until_ready(process.stdout)[1], folder)
    finally:
        process.kill()
        process.wait()
        soon(lambda: not _replicas(nodes))


def _replicas(nodes: Nodes) -> list[psutil.Process]:
    """The processes of the replicas on these nodes."""
    own = [each for raylet in nodes.raylets for each in psutil.Process(raylet).children(recursive=True)]
    found = []
    for process in own:
        with suppress(psutil.NoSuchProcess):
            if "ServeReplica" in " ".join(process.cmdline()):
                found.append(process)
    return found


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
    """Killed with its node, and with all of its processes."""
    nodes.replace()
    texts = questions(48)  # more than one replica takes at a time
    with serving(nodes, tmp_path, "sentences", store=searchable()) as server, ThreadPoolExecutor(len(texts)) as pool:
        with server.halted():
            waiting = [pool.submit(server.answer, text) for text in texts]
            soon(lambda: server.figure("waiting") == len(texts))
            soon(lambda: len({number for number, _ in server.begun()}) == 2)
            head = nodes.raylets[0]  # the server's own node
            killed = next(number for number, _ in server.begun() if psutil.Process(number).ppid() != head)
            lost = [question for number, question in server.begun() if number == killed]
            nodes.kill(psutil.Process(killed).ppid())
            soon(lambda: server.figure("computed_again") >= len(lost))
        answers = [future.result() for future in waiting]
        assert {answer.status_code for answer in answers} == {200}
        expected = answering(nodes, searchable(), "sentences").answer(texts)
        assert all(same(answer.json(), each) for answer, each in zip(answers, expected, strict=True))
        # What the other replica was computing meanwhile is computed once.
        assert Counter(question for _, question in server.begun()) == Counter([*texts, *lost])
        assert len(lost) <= server.figure("computed_again") < len(texts)
        soon(lambda: server.answer(texts[0]).is_success and len({number for number, _ in server.begun()}) == 3)
        assert "a replica was lost" in server.end()
    assert _replicas(nodes) == []


@pytest.mark.slow
def test_answers_errors_and_limits_are_those_of_one_process(nodes: Nodes, tmp_path: Path) -> None:
    """And a server that ends answers what it accepted."""
    store, texts = searchable(), questions(20)
    opened = serving(nodes, tmp_path, "sentences", "alone", store=store, replicas="1")
    with opened as server, server.client() as client:
        expected = answering(nodes, store, "sentences").answer(texts)
        bodies = [{"question": text, "model": "sentences"} for text in texts]
        assert all(same(client.post("/answer", json=body).json(), each)
                   for body, each in zip(bodies, expected, strict=True))  # fmt: skip
        assert client.post("/search", json={"question": texts[0], "model": "alone"}).status_code == 400
        _full(server)
        with ThreadPoolExecutor(8) as pool:
            with server.halted():
                waiting = [pool.submit(server.answer, text, "sentences") for text in texts[:8]]
                soon(lambda: server.figure("waiting") == 8)
                server.process.send_signal(signal.SIGTERM)
            assert {future.result().status_code for future in waiting} == {200}
        assert "Stopped. All accepted requests were answered." in server.process.communicate(timeout=PATIENCE)[0]
        assert server.process.returncode == 0
    written = subprocess.run(["grep", "-rqs", "town of Velmar in the year", nodes.driver.parent])
    assert written.returncode == 1  # Ray keeps no question


def _full(server: RunningServer) -> None:
    """More requests than have room get 429, and the others their answers."""
    room = Bounds().room + Bounds().requests
    body = {"question": "Who is asked too often?", "model": "sentences"}

    async def ask() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.address, timeout=PATIENCE, limits=limits) as client:
            with server.halted():
                waiting = [asyncio.create_task(client.post("/answer", json=body)) for _ in range(room + 5)]
                early = asyncio.as_completed(waiting)
                for _ in range(5):
                    await next(early)
            return await asyncio.gather(*waiting)

    answers = asyncio.run(ask())
    assert Counter(answer.status_code for answer in answers) == {200: room, 429: 5}
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers if answer.status_code == 429)


@pytest.mark.slow
def test_replicas_follow_an_index_that_moves_and_do_not_outlive_their_server(nodes: Nodes, tmp_path: Path) -> None:
    store = Path(shutil.copytree(searchable(), tmp_path / "store"))
    index(store, "synthetic:passages=50,questions=5,seed=9", name="test")
    generations.rollback(store, "test")
    ended = Event()
    with serving(nodes, tmp_path, "passages", store=store) as server, ThreadPoolExecutor(4) as pool:
        text = questions(1)[0]

        def ask() -> list[tuple[int, str]]:
            seen = []
            while not ended.is_set():
                answer = server.answer(text)
                seen.append((answer.status_code, answer.json()["fingerprint"]))
            return seen

        def shown() -> str:
            with server.client() as client:
                return str(client.get("/v1/models/passages").json()["vitalfew"]["fingerprint"])

        before = server.answer(text).json()["fingerprint"]
        clients = [pool.submit(ask) for _ in range(4)]
        try:
            generations.promote(store, "test")
            soon(lambda: shown() != before)
            after = shown()
            # Only when both replicas have followed are so many answers in a row from the new index.
            soon(lambda: all(server.answer(text).json()["fingerprint"] == after for _ in range(40)))
        finally:
            ended.set()
        seen = [each for client in clients for each in client.result()]
        assert len(_replicas(nodes)) == 2
        server.process.kill()
        soon(lambda: not _replicas(nodes))
    assert {status for status, _ in seen} == {200}
    assert {fingerprint for _, fingerprint in seen} == {before, after}
    assert len({number for number, _ in server.begun()}) == 2
