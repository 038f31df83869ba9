"""The engine `openai` against a server that misbehaves. A real one, `vllm serve`, is in test_vllm.py."""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.fakes import ChatServer, Reply, completion
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable
from vitalfew.tasks.models.causal.engines.keys import LONGEST_REASON
from vitalfew.tasks.models.causal.engines.memory import remembering
from vitalfew.tasks.models.causal.engines.openai import OpenAI
from vitalfew.tasks.models.causal.engines.remote import Unanswered

KEY = "sk-very-secret-0123456789"
CHAT = "/v1/chat/completions"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    # The client's own waits are tested by its authors; here they are as short as they come.
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.02)


def engine_at(url: str | None, **settings: Any) -> OpenAI:
    given = {"model": "tiny", "base_url": url, "retries": 2, "timeout": 20.0, **settings}
    return OpenAI(OpenAI.Options(**given), "generate")


@contextmanager
def serving(
    chat: Callable[[str, int], Reply], other: Callable[[str, Any], Reply] | None = None
) -> Iterator[ChatServer]:
    """`chat(prompt, attempt)` for completions, `other(path, body)` for the rest (default: a list of models, or 404)."""

    def behave(path: str, body: Any, attempt: int) -> Reply:
        if path == CHAT:
            return chat(body["messages"][0]["content"], attempt)
        if other:
            return other(path, body)
        return Reply({"object": "list", "data": []}) if path == "/v1/models" else Reply({"error": "no"}, status=404)

    with ChatServer(behave) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", server.url)  # the key is meant for it
        yield server


def ask(chat: Callable[[str, int], Reply], *texts: str, **settings: Any) -> tuple[list[Completion], ChatServer]:
    with serving(chat) as server:
        return engine_at(server.url, **settings).complete(texts), server


def test_an_answer_with_its_counts_and_logprob() -> None:
    steps = [{"token": "A", "logprob": -0.25}, {"token": " mill", "logprob": -0.5}]
    [answer], server = ask(lambda prompt, _: completion(" A mill\n", logprobs={"content": steps}), "What stands?")
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("A mill", 7, 2)
    assert answer.logprob == pytest.approx(-0.75)
    assert (answer.finish_reason, answer.error) == ("stop", "")
    assert answer.seconds > 0
    [(_, body, headers)] = [each for each in server.asked if each[0] == CHAT]
    assert {name: body[name] for name in ("model", "temperature", "max_tokens", "logprobs", "top_p")} == {
        "model": "tiny", "temperature": 0.1, "max_tokens": 150, "logprobs": True, "top_p": 1.0,
    }  # fmt: skip
    assert headers["authorization"] == f"Bearer {KEY}"


def test_answers_are_in_the_order_of_the_prompts_and_seeds_their_own() -> None:
    def chat(prompt: str, attempt: int) -> Reply:
        reply = completion(f"to {prompt}")
        reply.delay = 0.05 if prompt == "0" else 0.0
        return reply

    answers, server = ask(chat, *map(str, range(20)))
    assert [answer.text for answer in answers] == [f"to {number}" for number in range(20)]
    seeds = {body["messages"][0]["content"]: body["seed"] for path, body, _ in server.asked if path == CHAT}
    assert len(set(seeds.values())) == 20
    again, later = ask(chat, "3")
    assert later.asked[-1][1]["seed"] == seeds["3"]
    assert again[0].text == "to 3"


@pytest.mark.parametrize(
    ("trouble", "words", "is_retried"),
    [
        (Reply({"error": {"message": "no model tiny"}}, status=404), "no model tiny", False),
        (Reply({"error": {"message": "oops"}}, status=500), "500", True),
        (Reply(hang_up=True), "Connection error", True),
        (Reply(b"no json at all"), "JSONDecodeError", False),
        (Reply([1, 2]), "TypeError", False),
    ],
)
def test_lasting_trouble_ends_the_batch_once_the_others_are_answered(
    trouble: Reply, words: str, is_retried: bool
) -> None:
    with serving(lambda prompt, _: trouble if prompt == "b" else completion("yes")) as server:
        memory = Kept()
        with remembering(memory), pytest.raises(Unanswered, match=r"1 of 3 requests have no answer: .*same command"):
            engine_at(server.url).complete([*"abc"])
        assert [answer["text"] for answer in memory.answers.values()] == ["yes", "yes"]
        assert server.prompts().count("b") == (3 if is_retried else 1)
        # Who accepts it has a row with the error. What was answered is not asked again.
        with remembering(memory):
            answers = engine_at(server.url, retries=0, accept_errors=True).complete([*"abc"])
        assert server.prompts().count("a") == 1
    assert [answer.text for answer in answers] == ["yes", "", "yes"]
    assert words in answers[1].error
    assert answers[1].finish_reason == "error"


class Kept:
    """A memory of paid answers."""

    def __init__(self) -> None:
        self.answers: dict[str, dict[str, Any]] = {}
        self.tokens = 0

    def find(self, key: str) -> dict[str, Any] | None:
        return self.answers.get(key)

    def keep(self, answers: Sequence[tuple[str, dict[str, Any], int]]) -> None:
        for key, answer, tokens in answers:
            self.answers[key] = json.loads(json.dumps(answer))
            self.tokens += tokens

    def give(self, tokens: int) -> None:
        """Nobody counts."""


@pytest.mark.parametrize("count", ["-5", "null", "7.5"])
def test_counts_that_cannot_be_are_missing_ones(count: str, caplog: pytest.LogCaptureFixture) -> None:
    body = json.dumps({**completion("yes").body, "usage": {"prompt_tokens": 0, "completion_tokens": 3}})
    body = body.replace('"prompt_tokens": 0', f'"prompt_tokens": {count}')
    with serving(lambda prompt, _: Reply(body.encode())) as server, remembering(memory := Kept()):
        answers = engine_at(server.url).complete(["a", "b"])
    assert [(each.text, each.prompt_tokens, each.completion_tokens) for each in answers] == [("yes", 0, 3)] * 2
    assert len(memory.answers) == 2
    assert memory.tokens == 6
    (warning,) = [record.message for record in caplog.records if "how many tokens" in record.message]
    assert server.url in warning


@pytest.mark.parametrize(("answered", "is_other"), [("tiny-2026-08-06", False), ("tiny-large", True)])
def test_another_model_than_was_asked_for_is_told_once(
    answered: str, is_other: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ask(lambda prompt, _: Reply({**completion("yes").body, "model": answered}), "a", "b")
    assert sum(f"model {answered}, not with tiny" in record.message for record in caplog.records) == is_other


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    [answer], _ = ask(lambda *_: completion("a \ud83d b \ud83d\ude00", finish_reason="st\ud83dop"), "a")
    assert (answer.text, answer.finish_reason) == ("a \ufffd b \U0001f600", "st\ufffdop")


def test_no_more_requests_at_once_than_allowed() -> None:
    three = threading.Barrier(3)

    def chat(prompt: str, attempt: int) -> Reply:
        three.wait(timeout=900)
        return completion(prompt)

    answers, server = ask(chat, *map(str, range(24)), concurrency=3)
    assert [answer.error for answer in answers] == [""] * 24
    assert server.most_at_once == 3


def test_the_key_is_nowhere(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    echo = Reply({"error": {"message": f"wrong key: {KEY}", "header": f"Bearer {KEY}"}}, status=400)
    garbage = Reply(f"{KEY} is no JSON".encode())
    said = completion(f"It is {KEY}.", finish_reason=f"{'x' * 30}{KEY}")
    replies = {"a": echo, "b": garbage, "c": said}
    with caplog.at_level(logging.DEBUG), serving(lambda prompt, _: replies[prompt]) as server:
        engine = engine_at(server.url, accept_errors=True)
        answers = engine.complete(["a", "b", "c"])
        shown = [repr(engine), repr(engine.client), json.dumps(engine.identity()), repr(answers)]
        refused = serving(echo_401, lambda path, body: echo_401("", 0))
        with refused as other, pytest.raises(EngineUnavailable, match="refuses the key") as raised:
            engine_at(other.url).complete(["a"])
    assert [bool(answer.error) for answer in answers] == [True, True, False]
    assert "***" in answers[0].error
    assert (answers[2].text, answers[2].finish_reason) == ("It is ***.", f"{'x' * 30}***")
    streams = capfd.readouterr()
    for text in (*shown, str(raised.value), caplog.text, streams.out, streams.err):
        assert KEY not in text


def test_no_part_of_the_key_is_left_where_a_message_is_cut() -> None:
    def chat(before: str, attempt: int) -> Reply:
        said = "x" * int(before) + KEY
        return Reply({"error": {"message": said}}, status=400) if int(before) % 2 else Reply(said.encode())

    places = [*range(56, 82), *range(LONGEST_REASON - 90, LONGEST_REASON, 3)]
    answers, _ = ask(chat, *map(str, places), retries=0, accept_errors=True)
    for answer in answers:
        assert "xxx" in answer.error
        assert not any(KEY[start : start + 4] in answer.error for start in range(len(KEY) - 3))


def echo_401(prompt: str, attempt: int) -> Reply:
    return Reply({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status=401)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(EngineUnavailable, match=r"generate\.base_url=.*OPENAI_BASE_URL"):
        engine_at(None)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(ConfigError, match=r"generate\.model=NAME"):
        engine_at("http://127.0.0.1:1/v1", model=None)
    with pytest.raises(ConfigError, match="environment variable") as raised:
        engine_at("http://me:hidden@127.0.0.1:1/v1")
    assert "hidden" not in str(raised.value)
    with pytest.raises(EngineUnavailable, match=r"no server answers at http://127\.0\.0\.1:1/v1.*vllm serve"):
        engine_at("http://127.0.0.1:1/v1", retries=0).complete(["a"])
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:2/v1/")
    assert engine_at(None).identity()["base_url"] == "http://127.0.0.1:2/v1"
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert engine_at(None).identity()["base_url"] == "https://api.openai.com/v1"  # with its key
