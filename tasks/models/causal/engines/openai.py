"""`openai`: any server that speaks OpenAI's chat completions (vLLM, llama.cpp, OpenAI, …), through the `openai` client.

The client retries 408, 409, 429, 5xx, timeouts, answers without end (bounded.py) and lost connections. The wait
doubles every time (0.5 to 8 s, with jitter) or follows the server's Retry-After, for at most two minutes. A parameter
that the server refuses is left out (dialects.py). A refusal of the prompt (`REFUSALS`) gives a row with an error, and
so does an answer of no use that the server charged for; any other failure may pass (remote.py). A key is sent only to
the server that it is meant for (keys.py), and never stored. A redirect is not followed: it would take the prompts to
another server than the one that was named.

A probe asks vLLM for the named tokens only (`logprob_token_ids`). It asks any other server for the 20 most probable
tokens, and a probed token that is not among them has no entry in `probabilities`.

An answer is journaled as it comes, and not paid for again by a run that goes on after a kill (remote.py). So what a
server says beside the text is checked before it is used, and left out where it cannot be right: counts of tokens, log
probabilities, the reason why the text ends.
"""

import json
import logging
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar
from urllib.parse import urlsplit

import openai

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import ServerOptions
from vitalfew.tasks.models.causal.engines import dialects, keys
from vitalfew.tasks.models.causal.engines.base import (
    Completion,
    EngineUnavailable,
    JsonSchema,
    Probe,
    failed,
    sampling_seed,
    without_thought,
)
from vitalfew.tasks.models.causal.engines.bounded import BoundedClient, OutOfBounds, TooLong
from vitalfew.tasks.models.causal.engines.remote import Remote, RemoteOptions, ServerAnswer

logger = logging.getLogger("vitalfew")

TOP = 20
"""The most `top_logprobs` that OpenAI's interface allows."""
REFUSALS = (400, 403, 413, 415, 422, 451)
"""Statuses that a prompt causes. Others are about the server, the account or the model, and may pass."""
OF_PROBE = ("logprobs", "top_logprobs", "logprob_token_ids", "return_tokens_as_token_ids")
"""Parameters that a probe cannot do without."""
_REASONS = {
    **dict.fromkeys(["length", "max_tokens", "model_length", "max_output_tokens"], "length"),
    **dict.fromkeys(["content_filter", "safety", "recitation", "prohibited_content"], "content_filter"),
    **dict.fromkeys(["stop", "eos", "end_turn"], "stop"),
}
"""Servers' names of the reason why a text ends."""
MOST_TOKENS = 1 << 30
"""The most that a server is believed to have counted for a request."""


class OpenAI(Remote):
    """A server with OpenAI's chat completions API: at base_url, at OPENAI_BASE_URL, or OpenAI itself with its key.

    OPENAI_API_KEY goes only to the host of OPENAI_BASE_URL (to api.openai.com if that is not set), whatever base_url
    says. VITALFEW_API_KEYS=HOST=VARIABLE,HOST:PORT=VARIABLE names the keys of other hosts.
    """

    class Options(RemoteOptions):
        """A model by its name on the server."""

    version: ClassVar[str] = "2"  # since 2, thoughts are no part of an answer
    secrets = staticmethod(keys.blocks)

    def __init__(self, options: Options, section: str) -> None:
        if options.model is None:
            raise ConfigError(f"openai needs the model's name on the server: --set {section}.model=NAME")
        self.options, self.section = options, section
        self.base_url = _base_url(options, section)
        keys.key_for(self.base_url)  # before anything is computed for it
        self._warned: set[str] = set()

    def identity(self) -> dict[str, Any]:
        return {
            "class": type(self).__name__,
            "version": self.version,
            "model": self.options.model,
            "base_url": self.base_url,
            "files": {},
        }

    def asker(self, probe: Probe | None, form: JsonSchema | None) -> Callable[[str], ServerAnswer]:
        if probe and probe.groups:
            raise EngineUnavailable(
                "openai can probe a fixed position of an answer, not the place where a token was written"
            )
        _ = self.client  # before any thread asks for it
        probed = self._probed(probe) if probe else {}
        return partial(self._answer, probe, probed, self._parameters(probe, probed, form))

    @cached_property
    def client(self) -> openai.OpenAI:
        """Raises EngineUnavailable if no server answers, or if the server refuses the key or redirects."""
        client = openai.OpenAI(
            base_url=self.base_url,
            api_key=keys.key_for(self.base_url) or "none",  # the client insists on one
            max_retries=self.options.retries,
            timeout=self.options.timeout,
            http_client=BoundedClient(self.options.timeout, self.section),
        )
        try:
            client.models.with_raw_response.list()  # which is not read: it may be long
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise EngineUnavailable(f"{keys.refusal(self.base_url)}: {_why(error)}") from None
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, TooLong):
                raise EngineUnavailable(f"{self.base_url} does not list its models: {_why(error)}") from None
            raise EngineUnavailable(
                f"no server answers at {self.base_url} ({_why(error)}). Start one, for example `vllm serve "
                f"MODEL`, or set {self.section}.base_url or OPENAI_BASE_URL to its address"
            ) from None
        except openai.NotFoundError:
            # Some servers have no list of models, but mostly the path is wrong.
            if not urlsplit(self.base_url).path.strip("/"):
                remedy = f"is it {self.base_url}/v1?"
                raise EngineUnavailable(f"{self.base_url} has no chat completions; {remedy}") from None
        except (openai.OpenAIError, ValueError) as error:
            self._refuse_redirect(error)
            logger.warning("%s does not list its models: %s", self.base_url, _why(error))
        return client

    def _refuse_redirect(self, error: Exception) -> None:
        """Raises EngineUnavailable if the server sends its callers elsewhere."""
        if isinstance(error, openai.APIStatusError) and error.response.is_redirect:
            there = keys.shown(error.response.headers.get("location", "nowhere"))
            remedy = f"to use that address, set {self.section}.base_url"
            raise EngineUnavailable(
                f"{self.base_url} redirects to {there}, and redirects are not followed; {remedy}"
            ) from None

    def _answer(
        self, probe: Probe | None, probed: dict[str, int], parameters: dict[str, Any], prompt: str
    ) -> ServerAnswer:
        try:
            response, left_out = self._request(prompt, parameters, OF_PROBE if probe else ())
        except openai.AuthenticationError as error:  # of a server that lists its models to anybody
            raise EngineUnavailable(f"{keys.refusal(self.base_url)}: {_why(error)}") from None
        except openai.OpenAIError as error:
            self._refuse_redirect(error)
            refused = isinstance(error, openai.APIStatusError) and error.status_code in REFUSALS
            return ServerAnswer(failed(_why(error)), may_pass=not refused)
        seconds = response.elapsed.total_seconds()
        content = response.content.decode("utf-8-sig", "replace")
        answer: Any = None
        try:
            # Python refuses to read numbers of thousands of digits; what is longer than this is too large anyway.
            answer = json.loads(content, parse_int=lambda digits: int(digits[:40]))
            completion = replace(_read(answer, seconds, probe, probed), left_out=left_out)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            reason = f"the server's answer cannot be used ({type(error).__name__}: {_why(error)})"
            usage = _usage(answer)
            tokens = usage["prompt_tokens"] + usage["completion_tokens"]
            return ServerAnswer(failed(f"{reason}: {keys.shown(content, 80)!r}"), tokens, may_pass=not tokens)
        self._check(answer, completion)
        return ServerAnswer(completion, completion.computed)

    def _check(self, answer: dict[str, Any], completion: Completion) -> None:
        """Warn of what the ledger lacks, and of another model than was asked for."""
        if not completion.prompt_tokens or (completion.text and not completion.completion_tokens):
            missing = "does not say how many tokens an answer took: the costs of this run lack them"
            self._warn_once("usage", f"{self.base_url} {missing}")
        asked, model = str(self.options.model), answer.get("model")
        # A version of the model that was asked for is not another one: gpt-4o-2024-08-06.
        if isinstance(model, str) and not re.fullmatch(r"[-_@:.\d]*", model.removeprefix(asked)):
            self._warn_once(
                "model", f"{self.base_url} answers with the model {keys.shown(model, 80)}, not with {asked}"
            )

    def _warn_once(self, about: str, message: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            logger.warning(message)

    def _request(self, prompt: str, parameters: dict[str, Any], needed: Sequence[str]) -> tuple[Any, list[str]]:
        """The raw answer, with the time of the last attempt, and the parameters that were left out, which are none of
        those `needed`. What the server refuses is remembered once it answers without: then the refusal was about that,
        and not about the prompt."""
        model = str(self.options.model)
        message: Any = {"role": "user", "content": prompt}
        dialect = dialects.known(self.base_url, model)
        while True:
            whole = {**parameters, "seed": sampling_seed(self.options.seed, prompt)}
            whole[dialect.limit] = self.options.max_tokens
            sent = {name: value for name, value in whole.items() if name not in dialect.left_out}
            try:
                response = self.client.chat.completions.with_raw_response.create(
                    model=model, messages=[message], extra_body=sent
                )
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                after = dialect.after(error.response.text, sent, needed)
                if after is None:
                    raise
                dialect = after
            else:
                dialects.learn(self.base_url, model, dialect)
                return response, [name for name in dialect.left_out if name in whole]

    def _parameters(self, probe: Probe | None, probed: dict[str, int], form: JsonSchema | None) -> dict[str, Any]:
        """Return what is sent with every prompt, beside its seed and the limit of its answer."""
        parameters: dict[str, Any] = {
            "temperature": self.options.temperature,
            "top_p": 1.0,  # whatever the model's own settings ask for
            "logprobs": True,
        }
        if self.options.reasoning_effort:
            parameters["reasoning_effort"] = self.options.reasoning_effort
        if probed:
            parameters |= {"logprob_token_ids": sorted(set(probed.values())), "return_tokens_as_token_ids": True}
        elif probe:
            parameters["top_logprobs"] = TOP
        if form:
            schema = {"name": "reply", "strict": True, "schema": form}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        return parameters

    def _probed(self, probe: Probe) -> dict[str, int]:
        """The vocabulary ids of the probe's tokens, from vLLM's /tokenize; none if the server lacks that endpoint.

        Raises ConfigError for a text that is not one token.
        """
        probe.check(self.options.max_tokens)
        url = self.base_url.removesuffix("/v1") + "/tokenize"
        ids: dict[str, int] = {}
        for token in probe.tokens:
            body = {"model": self.options.model, "prompt": token, "add_special_tokens": False}
            try:
                answer: Any = self.client.post(url, cast_to=object, body=body)
                numbers = [int(number) for number in answer["tokens"]]
            except (openai.OpenAIError, ValueError, LookupError, TypeError):
                return {}
            if len(numbers) != 1:
                raise ConfigError(f"probe {token!r} must be one token of {self.options.model}, got {len(numbers)}")
            ids[token] = numbers[0]
        return ids


def _base_url(options: ServerOptions, section: str) -> str:
    setting = f"{section}.base_url"
    usual = keys.PROVIDER if os.environ.get("OPENAI_API_KEY") else None
    url = options.base_url or os.environ.get("OPENAI_BASE_URL") or usual
    if not url:
        raise EngineUnavailable(
            f"openai needs the address of a server: --set {setting}=http://127.0.0.1:8000/v1, or set OPENAI_BASE_URL; "
            "OpenAI's server needs only OPENAI_API_KEY"
        )
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{setting} must be an address http://… or https://…, got {keys.redacted(url)}")
    if parts.username or parts.password or parts.query:
        # The URL is stored with every answer, and printed.
        raise ConfigError(
            f"{setting} must not hold a name, a password or a query; put the key into an environment variable"
        )
    return url.rstrip("/")


def _read(answer: dict[str, Any], seconds: float, probe: Probe | None, probed: dict[str, int]) -> Completion:
    """Raises ValueError, LookupError, TypeError or AttributeError if the answer does not follow the interface."""
    choice = answer["choices"][0]
    message, steps = choice["message"], _object(choice, "logprobs").get("content")
    steps = steps if isinstance(steps, list) else []
    text = without_thought(_text(message.get("content")))
    logprobs = [_logprob(step) for step in steps]
    if probe and not steps:
        raise ValueError("the answer has no log probabilities, which a probe needs; `vllm serve` gives them")
    return Completion(
        text=keys.redacted(text or "", keys.SHORT),  # an answer may be the word that is a short key
        seconds=seconds,
        logprob=None if None in logprobs or not steps else math.fsum(filter(None, logprobs)),
        finish_reason="length" if text is None else "refusal" if _is_refusal(message) else _reason(choice),
        probabilities=_probabilities(steps, probe, probed) if probe else {},
        **_usage(answer),
    )


def _text(content: Any) -> str:
    """The text of a message, which may be in parts, also of thoughts; '' if a limit came before the first word."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type", "text") in ("text", "output_text"))
    return content or ""


def _is_refusal(message: dict[str, Any]) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return bool(message.get("refusal") and not content) or any(part.get("type") == "refusal" for part in parts)


def _reason(choice: dict[str, Any]) -> str:
    reason = choice.get("finish_reason")
    if not isinstance(reason, str):
        return "stop"
    return _REASONS.get(reason.lower(), keys.redacted(reason)[:40] or "stop")


def _usage(answer: Any) -> dict[str, Any]:
    """The tokens of an answer, as a completion has them; 0 where the server does not say, or says what cannot be."""
    given = _object(answer, "usage")
    prompt = _count(given.get("prompt_tokens"))
    # Some servers count thoughts in the total alone.
    written = max(_count(given.get("completion_tokens")), _count(given.get("total_tokens")) - prompt if prompt else 0)
    thought = _object(given, "completion_tokens_details").get("reasoning_tokens")
    cached = _object(given, "prompt_tokens_details").get("cached_tokens", given.get("prompt_cache_hit_tokens"))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "cached_tokens": min(_count(cached), prompt),
        "thought_tokens": None if thought is None else min(_count(thought), written),
    }


def _object(parent: Any, name: str) -> dict[str, Any]:
    value = parent.get(name) if isinstance(parent, dict) else None
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


def _logprob(entry: Any) -> float | None:
    """A token's log probability; None if it is missing. OpenAI writes -9999 for a token that is all but impossible."""
    value = entry.get("logprob") if isinstance(entry, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return min(0.0, float(value)) if -1e9 <= value < 0.01 else None


def _probabilities(steps: Sequence[Any], probe: Probe, probed: dict[str, int]) -> dict[str, float]:
    """Return those of the probe's tokens that the server gives; none if the answer ended before the position."""
    if probe.position >= len(steps):
        return {}
    seen = {entry["token"]: _logprob(entry) for entry in steps[probe.position]["top_logprobs"]}
    names = {token: f"token_id:{probed[token]}" if probed else token for token in probe.tokens}
    return {token: math.exp(known) for token, name in names.items() if (known := seen.get(name)) is not None}


def _why(error: Exception) -> str:
    """One line, without the key."""
    if isinstance(error.__cause__, OutOfBounds):
        return keys.shown(f"{error.__cause__}")
    if isinstance(error, openai.APIStatusError) and str(error) == f"Error code: {error.status_code}":
        # The client passes on `message` alone, and a 422 of FastAPI, for one, has a list of faults.
        return keys.shown(" - ".join(filter(None, (f"{error}", dialects.said(error.response.text)))))
    return keys.shown(f"{error} ({error.__cause__})" if error.__cause__ else f"{error}")
