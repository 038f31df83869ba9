"""The engine `openai` against a server that misbehaves. A real one, `vllm serve`, is in test_vllm.py."""

import json
import logging
import math
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.fakes import ChatServer, Reply, completion
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.generators.openai import OpenAIGenerator
from vitalfew.tasks.models.causal.engines import remote
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable, Probe
from vitalfew.tasks.models.causal.engines.memory import remembering
from vitalfew.tasks.models.causal.engines.openai import LONGEST_REASON, OpenAI
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
    given = {"model": "tiny", "base_url": url, "retries": 2, "timeout": 5.0, **settings}
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
    assert 0 < answer.seconds < 5
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
    "trouble",
    [
        Reply({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "0.05"}),
        Reply({"error": {"message": "oops"}}, status=500),
        Reply(b"<html>bad gateway</html>", status=502),
        Reply(hang_up=True),
    ],
    ids=["429", "500", "502", "hang-up"],
)
def test_passing_trouble_is_tried_again(trouble: Reply) -> None:
    answers, server = ask(lambda prompt, attempt: trouble if attempt < 2 else completion("yes"), "a", "b")
    assert [answer.text for answer in answers] == ["yes", "yes"]
    assert sorted(server.prompts()) == ["a"] * 3 + ["b"] * 3


def test_retry_after_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("openai._base_client.time.sleep", waits.append)
    busy = Reply({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "17"})
    [answer], _ = ask(lambda prompt, attempt: completion("yes") if attempt else busy, "a")
    assert answer.text == "yes"
    assert max(waits) == 17.0


PASSING = {
    "429": (Reply({"error": {"message": "slow down"}}, status=429), "429"),
    "402": (Reply({"error": {"message": "no credit"}}, status=402), "no credit"),
    "404": (Reply({"error": {"message": "no model tiny"}}, status=404), "no model tiny"),
    "500": (Reply({"error": {"message": "oops"}}, status=500), "500"),
    "hang-up": (Reply(hang_up=True), "Connection error"),
    "slow": (completion("late"), "timed out"),
    "garbage": (Reply(b"no json at all"), "JSONDecodeError"),
    "empty": (Reply(b""), "JSONDecodeError"),
    "deep": (Reply(b"[" * 100_000), "RecursionError"),
    "other": (Reply({"error": {"code": 502}}), "choices"),
    "no-choice": (Reply({"choices": []}), "IndexError"),
    "null": (Reply({"choices": None}), "TypeError"),
    "list": (Reply([1, 2]), "TypeError"),
    "parts": (Reply({"choices": [{"message": {"content": ["parts"]}}]}), "AttributeError"),
}
RETRIED = ("429", "500", "hang-up", "slow")


@pytest.mark.parametrize("kind", PASSING)
def test_lasting_trouble_ends_the_batch_once_the_others_are_answered(kind: str) -> None:
    trouble, words = PASSING[kind]
    trouble.delay = 1.0 if kind == "slow" else 0.0
    with serving(lambda prompt, _: trouble if prompt == "b" else completion("yes")) as server:
        memory = Kept()
        with remembering(memory), pytest.raises(Unanswered, match=r"1 of 3 requests have no answer: .*same command"):
            engine_at(server.url, timeout=0.3).complete([*"abc"])
        assert [answer["text"] for answer in memory.answers.values()] == ["yes", "yes"]
        assert server.prompts().count("b") == (3 if kind in RETRIED else 1)
        # Who accepts it has a row with the error. What was answered is not asked again.
        with remembering(memory):
            answers = engine_at(server.url, timeout=0.3, retries=0, accept_errors=True).complete([*"abc"])
        assert server.prompts().count("a") == 1
    assert [answer.text for answer in answers] == ["yes", "", "yes"]
    assert words in answers[1].error
    assert answers[1].finish_reason == "error"


def test_only_the_first_lines_may_be_the_answer() -> None:
    with serving(lambda prompt, _: completion("\n Ada\nShe wrote the first programme.\n\nIn 1843.")) as server:
        written = {
            lines: OpenAIGenerator(
                OpenAIGenerator.Options(generator="openai", model="tiny", base_url=f"{server.url}", lines=lines)
            ).generate([Prompt("Who?", "Who?")])[0]
            for lines in (None, 1, 2)
        }
    assert written[None].text == "Ada\nShe wrote the first programme.\n\nIn 1843."
    assert [written[lines].text for lines in (1, 2)] == ["Ada", "Ada\nShe wrote the first programme."]
    assert len({answer.completion_tokens for answer in written.values()}) == 1


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


def test_a_server_that_is_gone_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PATIENCE", 3)
    gone = Reply({"error": {"message": "maintenance"}}, status=503)
    with serving(lambda prompt, _: completion("yes") if int(prompt) < 4 else gone) as server:
        engine = engine_at(server.url, concurrency=1, retries=0)
        with pytest.raises(EngineUnavailable, match=r"last 3 requests.*maintenance.*same command"):
            engine.complete([*map(str, range(50))])
        assert len(server.prompts()) < 50
        accepting = engine_at(server.url, concurrency=1, retries=0, accept_errors=True)
        assert len(accepting.complete([*map(str, range(8))])) == 8


def test_reasons_are_counted() -> None:
    def chat(prompt: str, attempt: int) -> Reply:
        return Reply({"error": {"message": "oops" if prompt < "5" else "slow down"}}, status=500)

    with pytest.raises(Unanswered, match=r"^8 of 8 requests .*oops.* \(5 times\);.*slow down.* \(3 times\)") as raised:
        ask(chat, *map(str, range(8)), retries=0)
    assert isinstance(pickle.loads(pickle.dumps(raised.value)), Unanswered)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    assert str(Unanswered.together([raised.value] * 2, "label")).startswith("label: 16 of 16 requests have no answer: ")


@pytest.mark.parametrize("status", [400, 403, 413, 422])
def test_a_refusal_is_final(status: int) -> None:
    refusal = Reply({"error": {"message": "the prompt is too long"}}, status=status)
    [answer], server = ask(lambda prompt, _: refusal, "a")
    assert "the prompt is too long" in answer.error
    assert len(server.prompts()) == 1


NO_COUNTS = ["-5", "1e25", "Infinity", "-Infinity", "NaN", "null", "true", "7.5", "[1]", '"7"', "9" * 26, "9" * 9999]


@pytest.mark.parametrize("count", NO_COUNTS, ids=lambda count: count[:30])
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


@pytest.mark.parametrize("usage", [None, [], "many", {}, {"prompt_tokens": 4}])
def test_missing_counts_are_told_once(usage: Any, caplog: pytest.LogCaptureFixture) -> None:
    answers, _ = ask(lambda prompt, _: Reply({**completion("yes").body, "usage": usage}), "a", "b")
    read = 4 if isinstance(usage, dict) and usage else 0
    assert [(answer.text, answer.prompt_tokens, answer.completion_tokens) for answer in answers] == [
        ("yes", read, 0)
    ] * 2
    assert sum("how many tokens" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("wrong", ["NaN", "Infinity", "-Infinity", "1e999", '"-1"', "null", "true", "3", "[]"])
def test_log_probabilities_that_cannot_be_are_left_out(wrong: str) -> None:
    entry = f'{{"token": "Yes", "logprob": {wrong}}}'
    steps = f'[{{"token": "Yes", "logprob": {wrong}, "top_logprobs": [{entry}, {{"token": "No", "logprob": -1}}]}}]'
    body = json.dumps(completion("Yes", logprobs={"content": "steps"}).body).replace('"steps"', steps).encode()
    with serving(lambda prompt, _: Reply(body)) as server:
        [plain] = engine_at(server.url).complete(["a"])
        [probed] = engine_at(server.url).complete(["a"], Probe(("Yes", "No")))
    assert (plain.text, plain.logprob, plain.error) == ("Yes", None, "")
    assert probed.probabilities == {"No": pytest.approx(math.exp(-1))}


@pytest.mark.parametrize("logprobs", ["many", [1], {"content": "x"}, {"content": [1, None]}, {"content": [{}]}])
def test_an_answer_is_worth_its_text_whatever_its_log_probabilities_are(logprobs: Any) -> None:
    [answer], _ = ask(lambda prompt, _: completion("yes", logprobs=logprobs, finish_reason=["stop"]), "a")
    assert (answer.text, answer.logprob, answer.finish_reason, answer.error) == ("yes", None, "stop", "")


@pytest.mark.parametrize(
    ("answered", "is_other"),
    [("tiny", False), ("tiny-2026-08-06", False), ("tiny-large", True), ("huge", True), (None, False), (7, False)],
)
def test_another_model_than_was_asked_for_is_told_once(
    answered: Any, is_other: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ask(lambda prompt, _: Reply({**completion("yes").body, "model": answered}), "a", "b")
    assert sum(f"model {answered}, not with tiny" in record.message for record in caplog.records) == is_other


def test_half_of_a_surrogate_pair_is_replaced_wherever_it_is() -> None:
    half, whole = "\ud83d", "\ud83d\ude00"
    usage = completion("").body["usage"]
    replies = {
        "text": completion(f"a {half} b {whole}", finish_reason=f"st{half}op"),
        "refusal": Reply({"error": {"message": f"no {half}"}}, status=400),
        "useless": Reply({"choices": f"{half}", "usage": usage}),
        "bytes": Reply(json.dumps(completion("a b").body).encode().replace(b"a b", b"a \xff b")),
    }
    answers, _ = ask(lambda prompt, _: replies[prompt], *replies)
    for answer in answers:
        f"{answer.text}{answer.error}{answer.finish_reason}".encode()
    assert answers[0].text == "a \ufffd b \U0001f600"
    assert answers[0].finish_reason == "st\ufffdop"
    assert answers[3].text == "a \ufffd b"
    memory = Kept()  # of an older version, which kept it as it came
    with serving(lambda prompt, _: completion("yes")) as server, remembering(memory):
        engine_at(server.url).complete(["a"])
        next(iter(memory.answers.values()))["text"] = half
        assert engine_at(server.url).complete(["a"])[0].text == "\ufffd"


@pytest.mark.parametrize("part", ["logprobs", "response_format"])
def test_requests_that_are_refused_together_are_all_sent_again(part: str) -> None:
    """None of them becomes an error because another was the first to learn what the server does not know."""
    together = threading.Barrier(3)

    def behave(path: str, body: Any, attempt: int) -> Reply:
        if path != CHAT:
            return Reply({"object": "list", "data": []})
        if part not in body:
            return completion("yes")
        together.wait(10)
        return Reply({"error": {"message": f"{part}: unknown"}}, status=400)

    with ChatServer(behave) as server:
        answers = engine_at(server.url, concurrency=3).complete([*"abc"], form={"type": "object"})
    assert [(answer.text, answer.error) for answer in answers] == [("yes", "")] * 3


def test_a_server_without_logprobs_is_asked_without() -> None:
    with serving(lambda prompt, _: completion("yes")) as server:
        plain = server.behave

        def behave(path: str, body: Any, attempt: int) -> Reply:
            refused = path == CHAT and "logprobs" in body
            return Reply({"error": {"message": "logprobs: unknown"}}, status=400) if refused else plain(path, body, 0)

        server.behave = behave
        answers = engine_at(server.url, concurrency=1).complete(["a", "b"])
    assert [(answer.text, answer.logprob) for answer in answers] == [("yes", None)] * 2
    assert server.prompts() == ["a", "a", "b"]


def test_no_more_requests_at_once_than_allowed() -> None:
    three = threading.Barrier(3)

    def chat(prompt: str, attempt: int) -> Reply:
        three.wait(timeout=60)
        return completion(prompt)

    answers, server = ask(chat, *map(str, range(24)), concurrency=3)
    assert [answer.error for answer in answers] == [""] * 24
    assert server.most_at_once == 3


def test_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    with serving(lambda prompt, _: completion("yes") if prompt == "a" else Reply(b"?")) as server:
        engine_at(server.url, accept_errors=True).complete(["a", "b"], tick=lambda *done: seen.append(done))
    assert sorted(seen) == [(1, 0), (1, 9)]


def test_the_key_is_nowhere(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    echo = Reply({"error": {"message": f"wrong key: {KEY}", "header": f"Bearer {KEY}"}}, status=400)
    garbage = Reply(f"{KEY} is no JSON".encode())
    with caplog.at_level(logging.DEBUG), serving(lambda prompt, _: echo if prompt == "a" else garbage) as server:
        engine = engine_at(server.url, accept_errors=True)
        answers = engine.complete(["a", "b"])
        shown = [repr(engine), repr(engine.client), json.dumps(engine.identity()), repr(answers)]
        refused = serving(echo_401, lambda path, body: echo_401("", 0))
        with refused as other, pytest.raises(EngineUnavailable, match="refuses the key") as raised:
            engine_at(other.url).complete(["a"])
    assert all(answer.error for answer in answers)
    assert "***" in answers[0].error
    streams = capfd.readouterr()
    for text in (*shown, str(raised.value), caplog.text, streams.out, streams.err):
        assert KEY not in text


def test_no_part_of_the_key_is_left_where_a_message_is_cut() -> None:
    def chat(prompt: str, attempt: int) -> Reply:
        kind, before = prompt.split()
        said = "x" * int(before) + KEY
        return {
            "refusal": Reply({"error": {"message": said}}, status=400),
            "failure": Reply({"error": {"message": said}}, status=500),
            "garbage": Reply(said.encode()),
        }[kind]

    places = [*range(56, 82, 2), *range(LONGEST_REASON - 90, LONGEST_REASON, 3)]
    prompts = [f"{kind} {place}" for place in places for kind in ("refusal", "failure", "garbage")]
    answers, _ = ask(chat, *prompts, retries=0, accept_errors=True)
    for answer in answers:
        assert "xxx" in answer.error
        assert not any(KEY[start : start + 4] in answer.error for start in range(len(KEY) - 3))


def echo_401(prompt: str, attempt: int) -> Reply:
    return Reply({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status=401)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineUnavailable, match=r"generate\.base_url=.*OPENAI_BASE_URL"):
        engine_at(None)
    with pytest.raises(ConfigError, match=r"generate\.model=NAME"):
        engine_at("http://127.0.0.1:1/v1", model=None)
    with pytest.raises(ConfigError, match="environment variable") as raised:
        engine_at("http://me:hidden@127.0.0.1:1/v1")
    assert "hidden" not in str(raised.value)
    with pytest.raises(ConfigError, match="http"):
        engine_at("127.0.0.1:8000/v1")
    with pytest.raises(EngineUnavailable, match=r"no server answers at http://127\.0\.0\.1:1/v1.*vllm serve"):
        engine_at("http://127.0.0.1:1/v1", retries=0).complete(["a"])
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:2/v1/")
    assert engine_at(None).identity()["base_url"] == "http://127.0.0.1:2/v1"


def test_a_forgotten_path_is_named() -> None:
    with (
        serving(lambda prompt, _: completion("yes"), lambda path, body: Reply({}, status=404)) as server,
        pytest.raises(EngineUnavailable, match=r"is it http://127\.0\.0\.1:\d+/v1\?"),
    ):
        engine_at(server.url.removesuffix("/v1")).complete(["a"])


def test_a_probe_takes_the_most_probable_tokens_where_the_server_knows_no_ids() -> None:
    top = [{"token": "Yes", "logprob": math.log(0.6)}, {"token": "no", "logprob": math.log(0.3)}]
    steps = [{"token": "Yes", "logprob": math.log(0.6), "top_logprobs": top}]

    def chat(prompt: str, attempt: int) -> Reply:
        return completion("Yes", logprobs={"content": steps}) if prompt == "a" else completion("Yes")

    with serving(chat) as server:
        engine = engine_at(server.url)
        first, second = engine.complete(["a", "b"], Probe(("Yes", "No")))
        [beyond] = engine.complete(["a"], Probe(("Yes",), position=1))
    assert first.probabilities == {"Yes": pytest.approx(0.6)}  # No is not among them
    assert "no log probabilities" in second.error
    assert (beyond.text, beyond.probabilities) == ("Yes", {})
    with pytest.raises(ConfigError, match=r"position of a probe must be below 150.*got 150"):
        engine.complete(["a"], Probe(("Yes",), position=150))
