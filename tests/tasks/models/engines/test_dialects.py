"""The engine `openai` against servers as they are: what they refuse, and in which shapes they answer."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.support.dialects import DIALECTS, server
from tests.support.evaluating import run, values
from tests.support.fakes import ChatServer, Reply, completion
from tests.support.towns import TOWNS, towns
from vitalfew.tasks.generate import NoAnswers
from vitalfew.tasks.models.causal.engines import dialects
from vitalfew.tasks.models.causal.engines.base import Completion, without_thought
from vitalfew.tasks.models.causal.engines.openai import OpenAI

SCHEMA = {"type": "object"}


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "_learnt", {})
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def engine_at(url: str, **settings: Any) -> OpenAI:
    return OpenAI(OpenAI.Options(**{"model": "plain", "base_url": url, "concurrency": 1, **settings}), "generate")


def alone(body: Any, status: int = 200) -> tuple[list[Completion], ChatServer]:
    """The completion of a server that always answers this."""

    def behave(path: str, asked: Any, attempt: int) -> Reply:
        return Reply(body, status=status) if path.endswith("completions") else Reply({"data": []})

    with ChatServer(behave) as serving:
        return engine_at(serving.url).complete(["a"]), serving


@pytest.mark.parametrize("name", DIALECTS)
def test_what_a_server_refuses_is_left_out_said_once_and_kept(name: str, caplog: pytest.LogCaptureFixture) -> None:
    spoken = DIALECTS[name]
    left_out = tuple(each for each in spoken.refuses if each != "max_tokens")
    with server() as serving:
        url = serving.url.replace("/v1", "/a/path/v1")
        answers = engine_at(url, model=name).complete(list(TOWNS))
        later = engine_at(url, model=name).complete(["Velmar, again"])
    asked = [body for path, body, _ in serving.asked if path == "/a/path/v1/chat/completions"]
    assert [each.text for each in answers] == ["300", "400", "500", "600", "700", "800"]
    assert {(each.error, each.finish_reason) for each in answers} == {("", "stop")}
    assert all(tuple(each.left_out) == left_out for each in (*answers, *later))
    (said,) = {(e.prompt_tokens, e.completion_tokens, e.thought_tokens, e.cached_tokens) for e in answers}
    assert said == spoken.kept
    assert len(asked) == len(TOWNS) + 1 + len(spoken.refuses)  # every refusal is met once
    assert all(("max_completion_tokens" in body) == ("max_tokens" in spoken.refuses) for body in asked[-2:])
    warnings = [record.getMessage() for record in caplog.records if " refuses for " in record.getMessage()]
    assert len(warnings) == bool(left_out)
    assert all(each in warnings[0] for each in left_out)


def test_a_run_without_any_answer_ends_with_the_words_of_the_server_and_asks_again(tmp_path: Path) -> None:
    file = towns(tmp_path / "towns.json", TOWNS[:2])
    broken = [True]

    def behave(path: str, body: Any, attempt: int) -> Reply:
        if not path.endswith("completions"):
            return Reply({"data": []})
        return Reply({"error": {"message": "No quota for you."}}, status=403) if broken[0] else completion("300")

    with ChatServer(behave) as serving:
        settings: dict[str, Any] = {
            "questions": {"dataset": f"squad:{file}", "where": "text LIKE 'How many%'"},
            "retrieve": None,
            "generate": {"generator": "openai", "base_url": serving.url, "model": "tiny"},
            "methods": {"alone": {}},
            "score": {"metrics": ["accuracy"]},
        }
        with pytest.raises(NoAnswers, match=r"none of 2 requests to openai:tiny .*No quota for you \(2 times\)"):
            run(tmp_path / "store", settings)
        broken[0] = False
        assert values(tmp_path / "store", run(tmp_path / "store", settings), "alone") == {"accuracy": 0.5}


TOO_LONG = (
    "'max_tokens' is too large: 150. This model's maximum context length is 2048 tokens",
    "max_tokens must be at least 1",
    "Your prompt has the word seed in it, which is forbidden",
)


@pytest.mark.parametrize("words", TOO_LONG)
def test_a_refusal_of_the_prompt_teaches_nothing(words: str, caplog: pytest.LogCaptureFixture) -> None:
    [answer], serving = alone({"error": {"message": words}}, status=400)
    assert words in answer.error
    assert dialects.known(serving.url, "plain") == dialects.Dialect()
    assert not caplog.records


def test_a_form_and_the_effort_of_a_model_are_left_out_where_they_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    def behave(path: str, body: Any, attempt: int) -> Reply:
        if not path.endswith("completions"):
            return Reply({"data": []})
        for name, words in (("response_format", "json_schema is no type"), ("reasoning_effort", "reasoning effort?")):
            if name in body:
                return Reply({"error": {"message": words}}, status=400)
        return completion("{}")

    with ChatServer(behave) as serving, caplog.at_level(logging.WARNING):
        engine = engine_at(serving.url, reasoning_effort="low")
        [answer] = engine.complete(["a"], form=SCHEMA)
        [free] = engine.complete(["b"])
    assert (answer.text, answer.left_out) == ("{}", ["response_format", "reasoning_effort"])
    assert free.left_out == ["reasoning_effort"]  # a form was not asked for
    sent = [body for path, body, _ in serving.asked if path.endswith("completions")]
    assert sent[0]["reasoning_effort"] == "low"


@pytest.mark.parametrize(
    ("choice", "text", "reason"),
    [
        ({"message": {"content": [{"type": "refusal", "refusal": "No."}]}}, "", "refusal"),
        ({"message": {"content": None}, "finish_reason": "SAFETY"}, "", "content_filter"),
        ({"message": {"content": "a b"}, "finish_reason": "MAX_TOKENS"}, "a b", "length"),
        ({"message": {"content": "<think>It is 3"}, "finish_reason": "stop"}, "", "length"),
    ],
)
def test_refusals_and_cuts_are_told_apart(choice: dict[str, Any], text: str, reason: str) -> None:
    [answer], _ = alone({**completion("").body, "choices": [{"finish_reason": "stop", **choice}]})
    assert (answer.text, answer.finish_reason, answer.error) == (text, reason, "")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Paris", "Paris"),
        ("<think>a</think> Paris", "Paris"),
        ("<thinking>a\nb</thinking>\nParis <think>more</think>", "Paris"),
        ("from the template</think>Paris", "Paris"),
        ("A model writes <think> first.", "A model writes <think> first."),
        (" <thought>Paris", None),
        ("<think></think>", ""),
    ],
)
def test_an_answer_is_what_follows_a_thought(text: str, answer: str | None) -> None:
    assert without_thought(text) == answer
