"""`http`: a system of answers behind an address, such as another RAG: a question is one POST of JSON, and the answer
and the contexts are at paths in the JSON that comes back.

Requests are journaled, capped and resumed as those of any server (remote.py), bounded in time and bytes (bounded.py),
carry the key of their host alone (keys.py) and follow no redirect. 408, 409, 429, 5xx, timeouts and lost connections
are tried again, after 0.5 to 8 s or as Retry-After says, at most a minute. Another refusal is a row with an error.
"""

import json
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

import httpx2
import jmespath
from pydantic import Field, field_validator

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import NOT_IN_FINGERPRINT
from vitalfew.tasks.models.causal.engines import keys
from vitalfew.tasks.models.causal.engines.base import Elsewhere, EngineUnavailable, JsonSchema, Probe
from vitalfew.tasks.models.causal.engines.bounded import BoundedClient
from vitalfew.tasks.models.causal.engines.remote import Remote, RemoteOptions, ServerAnswer

QUESTION = "{question}"
"""Stands for the question in the template of a request."""
CHAT = "/chat/completions"
_CHAT_PATHS = {
    "answer": "choices[0].message.content",
    "prompt_tokens": "usage.prompt_tokens",
    "completion_tokens": "usage.completion_tokens",
}
_AGAIN = (408, 409, 429, *range(500, 600))
_KEY_REFUSED = (401, 403)
_LONGEST_WAIT = 60.0
_shown = partial(keys.shown, most=300)


class Http(Remote):
    """A system of answers at `url`, which takes and gives JSON. A prompt is a question."""

    class Options(RemoteOptions):
        url: str | None = Field(
            None, description="Address that takes a question by POST, as http://127.0.0.1:8000/ask."
        )
        request: dict[str, Any] | None = Field(
            None,
            description="Body of the request, in which {question} stands for the question. Default: {question: "
            "'{question}'}; for an address that ends with /chat/completions, a chat message.",
        )
        returns: dict[str, str] = Field(
            {},
            description="JMESPath of `answer`, and of `contexts`, `prompt_tokens`, `completion_tokens` and `usd` if "
            "they are in the reply, as {answer: data.answer, contexts: 'data.chunks[].text'}. Default: answer, "
            "contexts; for /chat/completions as in OpenAI's interface.",
        )
        # Only the cap needs it: a reply is never cut here.
        max_tokens: Annotated[int, NOT_IN_FINGERPRINT] = Field(
            4096, ge=1, description="Most tokens of an answer, and of what the system reads, that a cap reserves."
        )

        @field_validator("returns")
        @classmethod
        def _are_paths(cls, given: dict[str, str]) -> dict[str, str]:
            known = ("answer", "contexts", "prompt_tokens", "completion_tokens", "usd")
            if wrong := [name for name in given if name not in known]:
                raise ValueError(f"{wrong[0]!r} is none of {', '.join(known)}")
            for name, path in given.items():
                try:
                    jmespath.compile(path)
                except jmespath.exceptions.ParseError as error:
                    raise ValueError(f"{name}: {path!r} is no JMESPath ({str(error).splitlines()[0]})") from None
            return given

    options: Options
    version: ClassVar[str] = "2"  # 2: candidates name their contexts
    completion = Elsewhere
    secrets = staticmethod(keys.blocks)

    def __init__(self, options: Any, section: str) -> None:
        """Raises ConfigError."""
        self.options, self.section = options, section
        parts = urlsplit(options.url or "")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"http needs an address: --set {section}.url=http://HOST:PORT/PATH")
        if parts.username or parts.password:
            raise ConfigError(f"{section}.url must not hold a password; {keys.KEYS}=HOST=VARIABLE names the key")
        self.url = str(options.url)
        keys.key_for(self.url)  # before anything is asked
        is_chat = parts.path.rstrip("/").endswith(CHAT)
        message = {
            "messages": [{"role": "user", "content": QUESTION}],
            **({"model": options.model} if options.model else {}),
        }
        self.request = options.request or (message if is_chat else {"question": QUESTION})
        if QUESTION not in json.dumps(self.request):
            raise ConfigError(f"{section}.request has no {QUESTION}; write it where the question goes")
        usual = _CHAT_PATHS if is_chat else {"answer": "answer", "contexts": "contexts"}
        self.paths = {name: jmespath.compile(path) for name, path in {**usual, **options.returns}.items()}

    def identity(self) -> dict[str, Any]:
        about = {"class": type(self).__name__, "version": self.version, "url": self.url, "request": self.request}
        return {**about, "returns": {name: each.expression for name, each in self.paths.items()}, "files": {}}

    @cached_property
    def client(self) -> BoundedClient:
        return BoundedClient(self.options.timeout, self.section)

    def asker(self, probe: Probe | None, form: JsonSchema | None) -> Callable[[str], ServerAnswer]:
        _ = self.client  # before any thread asks for it
        return self._answer

    def _answer(self, question: str) -> ServerAnswer:
        body = filled(self.request, question)
        for attempt in range(self.options.retries + 1):
            began = time.monotonic()
            wait = min(0.5 * 2**attempt, 8.0)
            try:
                response = self.client.post(self.url, json=body)
            except httpx2.TransportError as error:
                fault = _shown(f"{self.url}: {error}")
            else:
                if response.status_code not in _AGAIN:
                    return self._read(response, time.monotonic() - began)
                fault = _shown(f"{self.url} answers {response.status_code}: {response.text}")
                asked = response.headers.get("retry-after", "")
                wait = min(float(asked), _LONGEST_WAIT) if asked.isdigit() else wait
            if attempt < self.options.retries:
                time.sleep(wait)
        return ServerAnswer(_failed(fault), may_pass=True)

    def _read(self, response: Any, seconds: float) -> ServerAnswer:
        """Raises EngineUnavailable for what every request would meet: a refused key, a redirect."""
        if response.status_code in _KEY_REFUSED:
            raise EngineUnavailable(keys.refusal(self.url))
        if response.is_redirect:
            there = _shown(response.headers.get("location", "nowhere"))
            raise EngineUnavailable(f"{self.url} redirects to {there}; to use that address, set {self.section}.url")
        if not response.is_success:
            return ServerAnswer(_failed(_shown(f"{self.url} answers {response.status_code}: {response.text}")))
        try:
            reply = json.loads(response.content)
        except ValueError:
            return ServerAnswer(_failed(_shown(f"{self.url} answers no JSON: {response.text}")), may_pass=True)
        found = {name: path.search(reply) for name, path in self.paths.items()}
        answer, contexts = found["answer"], found.get("contexts")
        if not isinstance(answer, str):
            at = self.paths["answer"].expression
            fault = f"no text at {at!r} in the reply; set {self.section}.returns: {_shown(response.text, most=120)}"
            return ServerAnswer(_failed(fault), _count(found.get("completion_tokens")) or 0)
        counts = {name: _count(found.get(name)) for name in ("prompt_tokens", "completion_tokens")}
        usd = found.get("usd")
        completion = Elsewhere(
            text=keys.redacted(answer, keys.SHORT),
            seconds=seconds,
            prompt_tokens=counts["prompt_tokens"] or 0,
            completion_tokens=counts["completion_tokens"] or 0,
            contexts=None if contexts is None else _texts(contexts),
            usd=float(usd) if isinstance(usd, (int, float)) and usd >= 0 else None,
            unknown=tuple(name for name, count in counts.items() if count is None),
        )
        return ServerAnswer(completion, completion.computed)


def filled(template: Any, question: str) -> Any:
    """A template of JSON with the question in it."""
    if isinstance(template, Mapping):
        return {key: filled(value, question) for key, value in template.items()}
    if isinstance(template, (list, tuple)):
        return [filled(value, question) for value in template]
    return template.replace(QUESTION, question) if isinstance(template, str) else template


def _texts(contexts: Any) -> tuple[str, ...]:
    """The texts of contexts; an object is shown as JSON."""
    entries = contexts if isinstance(contexts, list) else [contexts]
    return tuple(each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in entries)


def _count(given: Any) -> int | None:
    is_count = isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 30
    return given if is_count else None


def _failed(error: str) -> Elsewhere:
    return Elsewhere("", 0, 0, 0.0, finish_reason="error", error=error)
