"""`openai`: any server that speaks OpenAI's chat completions (vLLM, llama.cpp, OpenAI, …), through the `openai` client.

The client retries 408, 409, 429, 5xx, timeouts and lost connections, twice as late each time (0.5 to 8 s, with jitter)
or when the server's Retry-After says; other refusals are final. Either way a prompt without an answer is the row of an
error. The key is read from OPENAI_API_KEY, sent to the server and never written down; a server without keys needs none.

A probe asks vLLM for the named tokens alone (`logprob_token_ids`). Another server is asked for its 20 most probable
tokens, and a probed token that is not among them has no entry in `probabilities`.
"""

import json
import logging
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import urlsplit

import openai

from configs.evaluation import GenerateConfig
from configs.loading import ConfigError
from tasks.generators.base import Generation, GeneratorUnavailable, Probe, Prompt, Tick, failed, no_tick, sampling_seed

logger = logging.getLogger("vitalfew")

TOP = 20
"""The most `top_logprobs` that OpenAI's interface allows."""
LONGEST_REASON = 500


class OpenAI:
    """A server that speaks OpenAI's chat completions, at generate.base_url or OPENAI_BASE_URL."""

    version: ClassVar[str] = "1"
    uses_gpu = False
    workers: int | None = 1

    def __init__(self, config: GenerateConfig) -> None:
        if config.model is None:
            raise ConfigError("generator 'openai' needs the model's name on the server: --set generate.model=NAME")
        self.config = config
        self.base_url = _base_url(config)
        self._gives_logprobs = True

    def identity(self) -> dict[str, Any]:
        return {
            "class": type(self).__name__,
            "version": self.version,
            "model": self.config.model,
            "base_url": self.base_url,
            "files": {},
        }

    def generate(self, prompts: Sequence[Prompt], probe: Probe | None = None, tick: Tick = no_tick) -> list[Generation]:
        if probe and probe.groups:
            raise GeneratorUnavailable("openai looks at one position of an answer, not where a token was written")
        if not prompts:
            return []
        _ = self.client  # before any thread asks for it
        probed = self._probed(probe) if probe else {}
        answers: dict[int, Generation] = {}
        pool = ThreadPoolExecutor(self.config.concurrency)
        try:
            rows = {pool.submit(self._answer, prompt, probe, probed): row for row, prompt in enumerate(prompts)}
            for done in as_completed(rows):
                answer = answers[rows[done]] = done.result()
                tick(1, answer.prompt_tokens + answer.completion_tokens)
        finally:
            pool.shutdown(cancel_futures=True)
        return [answers[row] for row in range(len(prompts))]

    @cached_property
    def client(self) -> openai.OpenAI:
        """Raises GeneratorUnavailable where no server answers, or it refuses the key."""
        client = openai.OpenAI(
            base_url=self.base_url,
            api_key=_key() or "none",  # the client insists on one
            max_retries=self.config.retries,
            timeout=self.config.timeout,
        )
        try:
            client.models.list()
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise GeneratorUnavailable(
                f"{self.base_url} refuses the key in OPENAI_API_KEY ({'set' if _key() else 'not set'}): {_why(error)}"
            ) from None
        except openai.APIConnectionError as error:
            raise GeneratorUnavailable(
                f"no server answers at {self.base_url} ({_why(error)}). Start one, `vllm serve MODEL` for example, or "
                "set generate.base_url or OPENAI_BASE_URL to where it is"
            ) from None
        except openai.NotFoundError:
            # A server may do without a list of its models, but mostly it is the path that is wrong.
            if not urlsplit(self.base_url).path.strip("/"):
                remedy = f"is it {self.base_url}/v1?"
                raise GeneratorUnavailable(f"{self.base_url} has no chat completions; {remedy}") from None
        except (openai.OpenAIError, ValueError) as error:
            logger.warning("%s does not list its models: %s", self.base_url, _why(error))
        return client

    def _answer(self, prompt: Prompt, probe: Probe | None, probed: dict[str, int]) -> Generation:
        try:
            response = self._request(prompt, probe, probed)
        except openai.OpenAIError as error:
            return failed(_why(error))
        seconds = response.elapsed.total_seconds()
        try:
            return self._read(json.loads(response.content), seconds, probe, probed)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            start = _redacted(response.content[:80].decode(errors="replace"))
            return failed(f"the server's answer cannot be used ({type(error).__name__}: {_why(error)}): {start!r}")

    def _request(self, prompt: Prompt, probe: Probe | None, probed: dict[str, int]) -> Any:
        """The answer's bytes, with the time that the last attempt took."""
        create = self.client.chat.completions.with_raw_response.create
        try:
            return create(**self._parameters(prompt, probe, probed))
        except openai.BadRequestError as error:
            if probe or not self._gives_logprobs or "logprob" not in str(error):
                raise
        self._gives_logprobs = False
        return create(**self._parameters(prompt, probe, probed))

    def _parameters(self, prompt: Prompt, probe: Probe | None, probed: dict[str, int]) -> dict[str, Any]:
        # OpenAI's own newer models know the one name of the limit only, most other servers the other.
        limit = "max_completion_tokens" if urlsplit(self.base_url).hostname == "api.openai.com" else "max_tokens"
        parameters: dict[str, Any] = {
            "model": self.config.model,
            "messages": [{"role": "user", "content": prompt.text}],
            "temperature": self.config.temperature,
            "top_p": 1.0,  # whatever the model's own settings ask for
            "seed": sampling_seed(self.config.seed, prompt.text),
            limit: self.config.max_tokens,
        }
        if self._gives_logprobs:
            parameters["logprobs"] = True
        if probed:
            ids = sorted(set(probed.values()))
            parameters["extra_body"] = {"logprob_token_ids": ids, "return_tokens_as_token_ids": True}
        elif probe:
            parameters["top_logprobs"] = TOP
        return parameters

    def _read(self, answer: dict[str, Any], seconds: float, probe: Probe | None, probed: dict[str, int]) -> Generation:
        """Raises ValueError, LookupError, TypeError or AttributeError where it is not what the interface says."""
        choice = answer["choices"][0]
        text = choice["message"].get("content") or ""  # null where a limit came before the first word
        usage = answer.get("usage") or {}
        steps = (choice.get("logprobs") or {}).get("content") or []
        if probe and not steps:
            raise ValueError("no log probabilities, which a probe needs; `vllm serve` gives them")
        return Generation(
            text=text.strip(),
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            seconds=seconds,
            logprob=math.fsum(step["logprob"] for step in steps) if steps else None,
            finish_reason=str(choice.get("finish_reason") or "stop"),
            probabilities=_probabilities(steps, probe, probed) if probe else {},
        )

    def _probed(self, probe: Probe) -> dict[str, int]:
        """Vocabulary id of each of the probe's tokens, from vLLM's /tokenize; none where the server has no such thing.

        Raises ConfigError for a text that is not one token.
        """
        if probe.position >= self.config.max_tokens:
            raise ConfigError(f"probe at position {probe.position}: an answer has {self.config.max_tokens} tokens")
        url = self.base_url.removesuffix("/v1") + "/tokenize"
        ids: dict[str, int] = {}
        for token in probe.tokens:
            body = {"model": self.config.model, "prompt": token, "add_special_tokens": False}
            try:
                found = self.client.post(url, cast_to=object, body=body)
            except (openai.OpenAIError, ValueError):
                return {}
            numbers = found.get("tokens") if isinstance(found, dict) else None
            if not isinstance(numbers, list):
                return {}
            if len(numbers) != 1:
                raise ConfigError(f"probe {token!r} is {len(numbers)} tokens of {self.config.model}; one is due")
            ids[token] = int(numbers[0])
        return ids


def _base_url(config: GenerateConfig) -> str:
    found = config.base_url or os.environ.get("OPENAI_BASE_URL")
    if not found:
        raise GeneratorUnavailable(
            "generator 'openai' does not know its server: --set generate.base_url=http://127.0.0.1:8000/v1, or set "
            "OPENAI_BASE_URL (https://api.openai.com/v1 for OpenAI itself)"
        )
    parts = urlsplit(found)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"generate.base_url={_redacted(found)}: http://… or https://… is due")
    if parts.username or parts.password or parts.query:
        # It is kept with every answer, and printed.
        raise ConfigError("generate.base_url holds a name, a password or a query; put the key into OPENAI_API_KEY")
    return found.rstrip("/")


def _probabilities(steps: Sequence[dict[str, Any]], probe: Probe, probed: dict[str, int]) -> dict[str, float]:
    """Of the probe's tokens, as far as the server gives them; none where the answer ended before the position."""
    if probe.position >= len(steps):
        return {}
    seen = {each["token"]: each["logprob"] for each in steps[probe.position]["top_logprobs"]}
    names = {token: f"token_id:{probed[token]}" if probed else token for token in probe.tokens}
    return {token: math.exp(seen[name]) for token, name in names.items() if name in seen}


def _key() -> str:
    return os.environ.get("OPENAI_API_KEY", "")


def _redacted(text: str) -> str:
    key = _key()
    return text.replace(key, "***") if key else text


def _why(error: Exception) -> str:
    """One line, without the key."""
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    text = " ".join(f"{error}{cause}".split())
    return _redacted(text)[:LONGEST_REASON]
