"""A cap on money: what a server charges never passes it, and nothing is left reserved, whatever the server does."""

import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import ChatServer, Reply, completion
from tests.support.prices import PER_TOKEN, priced
from vitalfew.storage.costs import OWN_PRICES
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.budget import Budget, CapReached, NoPrice, charging, spending
from vitalfew.tasks.models.causal.engines.http import Http
from vitalfew.tasks.models.causal.engines.openai import OpenAI
from vitalfew.tasks.models.causal.engines.remote import FRAME_TOKENS, Remote, Unanswered

ANSWER, MOST = 9, 1 + FRAME_TOKENS + 150
"""Tokens of an answer to a prompt of one byte, and the tokens that are reserved for it."""
BUSY = Reply({"error": {"message": "slow down"}}, status=429)


@pytest.fixture(autouse=True)
def _prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.002)
    with priced(tmp_path, "openai:tiny"):
        yield


class Charging(ChatServer):
    """A server that counts what it charges: for every answer that it computes, also one that nobody gets."""

    def __init__(self, trouble: Callable[[str, int], Reply | None] = lambda prompt, attempt: None) -> None:
        self.trouble, self.charged = trouble, 0
        self._counting = threading.Lock()
        super().__init__(self._reply)

    def _reply(self, path: str, body: Any, attempt: int) -> Reply:
        if path == "/v1/models":
            return Reply({"object": "list", "data": []})
        prompt = body["messages"][0]["content"]
        trouble = self.trouble(prompt, attempt)
        if trouble and trouble.status != 200:
            return trouble
        with self._counting:
            self.charged += ANSWER
        return trouble or completion("yes")

    @property
    def usd(self) -> float:
        return self.charged * PER_TOKEN


def ask(
    server: ChatServer, budget: Budget | None, count: int, model: str = "openai:tiny", kind: str = "openai", **more: Any
) -> list[Completion]:
    """`kind`: of the engine that asks."""
    options: dict[str, Any] = {"model": "tiny", "retries": 2, "timeout": 20.0, **more}
    engine: Remote
    if kind == "http":
        options |= {"url": f"{server.url}/chat/completions", "max_tokens": 150}
        engine = Http(Http.Options(**options), "generate")
    else:
        engine = OpenAI(OpenAI.Options(base_url=server.url, **options), "generate")
    with spending(budget), charging(model):
        return engine.complete([chr(97 + number) for number in range(count)])


@pytest.mark.parametrize(("kind", "threads"), [("openai", 1), ("openai", 8), ("http", 8)])
def test_what_is_charged_never_passes_the_cap(kind: str, threads: int) -> None:
    most = (MOST + 3.5 * ANSWER) * PER_TOKEN
    budget = Budget(most)
    with Charging() as server, pytest.raises(CapReached, match=r"0\.3825 USD is reached: 0\.0360 USD are paid") as told:
        ask(server, budget, 26, kind=kind, concurrency=threads)
    assert server.usd == pytest.approx(budget.paid()) == pytest.approx(4 * ANSWER * PER_TOKEN)
    assert server.usd + MOST * PER_TOKEN > most, "there was room for another request"
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)


def test_several_processes_share_a_cap() -> None:
    """As workers do: each has a budget of its own, and one counts for all."""
    most = 1.6 * MOST * PER_TOKEN
    counted = Budget(most)

    def here() -> Budget:
        budget: Any = Budget(most)
        budget.reserve, budget.settle, budget.paid = counted.reserve, counted.settle, counted.paid
        return budget

    with Charging() as server, ThreadPoolExecutor(3) as workers:
        asked = [workers.submit(ask, server, here(), 26, concurrency=4) for _ in range(3)]
        assert [type(each.exception()) for each in asked] == [CapReached] * 3
    assert server.usd == pytest.approx(counted.paid())
    assert most - MOST * PER_TOKEN < server.usd <= most


def test_a_refused_attempt_costs_nothing() -> None:
    budget = Budget((MOST + 5.5 * ANSWER) * PER_TOKEN)
    with Charging(lambda prompt, attempt: BUSY if attempt < 2 else None) as server:
        assert len(ask(server, budget, 5)) == 5
        assert len(server.prompts()) == 15
    assert budget.paid() == pytest.approx(server.usd) == pytest.approx(5 * ANSWER * PER_TOKEN)
    # Nor does what fails for good: nothing is left reserved.
    with Charging(lambda prompt, attempt: BUSY) as server, pytest.raises(Unanswered):
        ask(server, budget, 6)
    budget.hold(MOST * PER_TOKEN)


@pytest.mark.parametrize("kind", ["openai", "http"])
@pytest.mark.parametrize("late", [False, True], ids=["cut", "late"])
def test_an_answer_that_does_not_arrive_may_be_charged_for(late: bool, kind: str) -> None:
    """So it counts as the most that it may cost, and every further attempt needs room of its own."""
    lost = completion("late") if late else Reply(hang_up=True)
    lost.delay = 1.5 if late else 0.0
    budget = Budget(2.5 * MOST * PER_TOKEN)
    with Charging(lambda prompt, attempt: lost) as server, pytest.raises(CapReached):
        ask(server, budget, 4, kind=kind, concurrency=2, timeout=0.7 if late else 20)
    assert server.usd <= budget.paid() == pytest.approx(2 * MOST * PER_TOKEN)


@pytest.mark.parametrize("kind", ["openai", "http"])
def test_a_server_that_does_not_count_is_paid_the_most(kind: str) -> None:
    reply = completion("yes")
    reply.body["usage"] = {"completion_tokens": 2}
    budget = Budget(2.5 * MOST * PER_TOKEN)
    with Charging(lambda prompt, attempt: reply) as server, pytest.raises(CapReached):
        ask(server, budget, 4, kind=kind, concurrency=1)
    assert budget.paid() == pytest.approx(2 * MOST * PER_TOKEN)


def test_what_has_no_price_cannot_be_capped() -> None:
    with Charging() as server, pytest.MonkeyPatch.context() as patch:
        with pytest.raises(NoPrice, match=r"needs the price of judge:tiny: .*prices\.yaml lacks it"):
            ask(server, Budget(1), 2, model="judge:tiny")
        patch.delenv(OWN_PRICES)  # of the product, where every model has the price 0
        with pytest.raises(NoPrice, match=r"openai:tiny: .*configs/prices\.yaml lacks it"):
            ask(server, Budget(1), 2)
        assert server.prompts() == []
