"""A key goes to the server that it is meant for, and to no other; 127.0.0.1 and localhost are two hosts here."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fakes import ChatServer, Reply, completion
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.engines import keys
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.engines.openai import OpenAI

SECRETS = {
    "OPENAI_API_KEY": "sk-very-secret-0123456789",
    "OPENAI_ADMIN_KEY": "admin-secret",
    "OPENAI_ORG_ID": "org-secret",
    "OPENAI_PROJECT_ID": "project-secret",
    "OPENAI_CUSTOM_HEADERS": "X-Gateway: gateway-secret\nAuthorization: Bearer custom-secret",
    "AWS_SECRET_ACCESS_KEY": "aws-secret",
    "LOCAL_KEY": "local-secret",
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("VITALFEW_API_KEYS", raising=False)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    def behave(path: str, body: Any, attempt: int) -> Reply:
        return completion("yes") if path.endswith("/completions") else Reply({"object": "list", "data": []})

    with ChatServer(behave) as running:
        yield running


def ask(url: str) -> str:
    """The answer's text, or its error."""
    options = OpenAI.Options(model="tiny", base_url=url, retries=0, timeout=60.0)
    [answer] = OpenAI(options, "generate").complete(["a"])
    return answer.text or answer.error


def sent(server: ChatServer) -> str:
    """All headers of all requests."""
    return "\n".join(f"{name}: {value}" for _, _, headers in server.asked for name, value in headers.items())


def test_a_server_that_an_experiment_names_gets_no_secret(server: ChatServer) -> None:
    assert ask(server.url) == "yes"
    assert "secret" not in sent(server)
    assert "authorization" not in sent(server)


def test_the_key_goes_to_the_server_of_the_environment(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_CUSTOM_HEADERS")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("/v1", "/other/path"))
    assert ask(server.url) == "yes"
    assert all(headers["authorization"] == f"Bearer {SECRETS['OPENAI_API_KEY']}" for _, _, headers in server.asked)
    server.asked.clear()
    assert ask(server.url.replace("127.0.0.1", "localhost")) == "yes"
    assert "secret" not in sent(server)


def test_the_user_names_the_key_of_another_server(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    place = server.url.removeprefix("http://").removesuffix("/v1")
    monkeypatch.setenv("VITALFEW_API_KEYS", f" models.example.org=OTHER_KEY , {place}=LOCAL_KEY")
    assert ask(server.url) == "yes"
    assert {headers["authorization"] for _, _, headers in server.asked} == {"Bearer local-secret"}
    assert not any(secret in sent(server) for secret in ("sk-", "org-secret", "gateway-secret"))


def test_a_redirect_takes_neither_key_nor_prompts_elsewhere(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def redirect(path: str, body: Any, attempt: int) -> Reply:
        there = server.url.replace("127.0.0.1", "localhost").removesuffix("/v1") + path
        return Reply({}, status=307, headers={"Location": there})

    with ChatServer(redirect) as first:
        monkeypatch.setenv("OPENAI_BASE_URL", first.url)
        with pytest.raises(EngineUnavailable, match=r"redirects to http://localhost:.* set generate\.base_url"):
            ask(first.url)
    assert not server.asked


def test_an_unencrypted_key_is_refused_but_not_an_unencrypted_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALFEW_API_KEYS", "models.example.org:80=LOCAL_KEY")
    with pytest.raises(ConfigError, match=r"LOCAL_KEY would travel unencrypted.*https://") as raised:
        ask("http://models.example.org/v1")
    assert "local-secret" not in str(raised.value)
    monkeypatch.setenv("VITALFEW_API_KEYS", "models.example.org=LOCAL_KEY,[::1]:8000=LOCAL_KEY")
    assert keys.key_for("https://models.example.org/v1") == keys.key_for("http://[::1]:8000/v1") == "local-secret"
    assert keys.key_for("http://models.example.org/v1") == ""


def test_a_refusal_says_how_the_server_gets_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(lambda *_: Reply({"error": {"message": "no key"}}, status=401)) as refusing:
        place = refusing.url.removeprefix("http://").removesuffix("/v1")
        with pytest.raises(EngineUnavailable, match=rf"no key is .*export VITALFEW_API_KEYS={place}=NAME"):
            ask(refusing.url)
        monkeypatch.setenv("VITALFEW_API_KEYS", f"{place}=LOCAL_KEY")
        monkeypatch.delenv("LOCAL_KEY")
        with pytest.raises(ConfigError, match=r"VITALFEW_API_KEYS names LOCAL_KEY.*but LOCAL_KEY is not set"):
            ask(refusing.url)


def test_a_list_of_keys_that_is_none_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALFEW_API_KEYS", "models.example.org=sk-very-secret")
    with pytest.raises(ConfigError) as raised:
        keys.key_for("https://models.example.org/v1")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com.example.org/v1",
        "https://example.org#api.openai.com",
        "https://api.openai.com:8443/v1",
        "http://api.openai.com/v1",
    ],
)
def test_what_looks_like_the_providers_own_server_gets_nothing(url: str) -> None:
    assert keys.key_for(url) == ""
    assert keys.key_for("https://API.openai.com/v1") == SECRETS["OPENAI_API_KEY"]
