"""One server that speaks the dialects of all: every model refuses and answers as the server does after which it is
called. It answers rightly whatever it is asked about a town, in as many words as the gold answer has."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.fakes import USAGE, ChatServer, Reply, completion
from tests.support.towns import TOWNS

Refusal = Callable[[str, Any], Reply]
"""How a parameter with a value is refused."""


def openai(name: str, value: Any) -> Reply:
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    if name == "max_tokens":
        message += " Use 'max_completion_tokens' instead."
    return _error(message, type="invalid_request_error", param=name, code="unsupported_parameter")


def openai_value(name: str, value: Any) -> Reply:
    message = f"Unsupported value: '{name}' does not support {value} here. Only the default (1) is supported."
    return _error(message, type="invalid_request_error", param=name, code="unsupported_value")


def gemini(name: str, value: Any) -> Reply:
    message = f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
    violations = [{"@type": "google.rpc.BadRequest", "fieldViolations": [{"description": message}]}]
    error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT", "details": violations}
    return Reply([{"error": error}], status=400)


def mistral(name: str, value: Any) -> Reply:
    detail = {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": value}
    whole = {"object": "error", "message": {"detail": [detail]}, "type": "invalid_request_error", "param": None}
    return Reply(whole, status=422)


def fastapi(name: str, value: Any) -> Reply:
    """With what it was sent, in which all parameters have their names."""
    sent = {"temperature": 0, "top_p": 1.0, "seed": 7, "logprobs": True}
    return Reply({"detail": [{"loc": ["body", name], "msg": "not permitted", "input": sent}]}, status=422)


def vllm(name: str, value: Any) -> Reply:
    message = f"[{{'type': 'extra_forbidden', 'loc': ('body', '{name}'), 'msg': 'Extra inputs are not permitted'}}]"
    return Reply({"object": "error", "message": message, "type": "BadRequestError", "param": None}, status=400)


def openrouter(name: str, value: Any) -> Reply:
    """Hands on what the server behind it says, as a string."""
    behind = json.dumps(openai(name, value).body)
    return _error("Provider returned error", code=400, metadata={"raw": behind, "provider_name": "Azure"})


def bedrock(name: str, value: Any) -> Reply:
    return _error("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")


def plain(name: str, value: Any) -> Reply:
    return Reply(f"400 Bad Request: {name} is not known here".encode(), status=400)


def _error(message: str, **more: Any) -> Reply:
    return Reply({"error": {"message": message, **more}}, status=400)


def text(right: str) -> Any:
    return {"content": right}


def thinking(right: str) -> Any:
    return {"content": f"<think>Is it 1700? </think>\n\n{right}"}


def template_thinks(right: str) -> Any:
    """The prompt's template has the beginning of the thought."""
    return {"content": f"Is it 1700? No.\n</think>\n\n{right}"}


def reasoned(right: str) -> Any:
    return {"content": right, "reasoning_content": "Is it 1700? No.", "reasoning": "Is it 1700?"}


def parts(right: str) -> Any:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Is it 1700?"}]}
    return {"content": [thought, {"type": "text", "text": right}]}


@dataclass(frozen=True)
class Spoken:
    """A dialect. `refuses`: parameters, in the order in which they are looked at; `usage`: beside that of an answer;
    `kept`: prompt, completion, thought and cached tokens of an answer."""

    refusal: Refusal
    refuses: tuple[str, ...]
    answer: Callable[[str], Any] = text
    usage: dict[str, Any] = field(default_factory=dict)
    kept: tuple[int, int, int | None, int] = (7, 2, None, 0)


_THOUGHT = {
    "completion_tokens": 42,
    "total_tokens": 49,
    "completion_tokens_details": {"reasoning_tokens": 40},
    "prompt_tokens_details": {"cached_tokens": 4},
}
DIALECTS = {
    "openai": Spoken(openai, ("max_tokens", "top_p", "logprobs"), text, _THOUGHT, (7, 42, 40, 4)),
    "azure": Spoken(openai_value, ("temperature", "top_p"), reasoned),
    "gemini": Spoken(gemini, ("seed", "logprobs"), text, {"total_tokens": 30}, (7, 23, None, 0)),
    "mistral": Spoken(mistral, ("seed", "logprobs"), parts),
    "fastapi": Spoken(fastapi, ("seed",)),
    "vllm": Spoken(vllm, ("top_p", "seed"), template_thinks),
    "openrouter": Spoken(openrouter, ("max_tokens", "temperature"), parts),
    "bedrock": Spoken(bedrock, ("top_p",), text, {"prompt_cache_hit_tokens": 5}, (7, 2, None, 5)),
    "plain": Spoken(plain, ("top_p",), thinking),
}
"""By the name of the model."""


def reply(path: str, body: Any, attempt: int) -> Reply:
    """What a server of all dialects says, at any address that ends as OpenAI's do."""
    if not path.endswith("/chat/completions"):
        return Reply({"object": "list", "data": []})
    spoken = DIALECTS[body["model"]]
    for name in spoken.refuses:
        if name in body:
            return spoken.refusal(name, body[name])
    answer = completion(None, message={"role": "assistant", **spoken.answer(right(body["messages"][0]["content"]))})
    answer.body["usage"] = USAGE | spoken.usage
    return answer


def right(prompt: str) -> str:
    """The gold answer to how many people live in the town that was asked about."""
    (number,) = (number for number, town in enumerate(TOWNS) if town in prompt)
    return str(100 * (number + 3))


def server() -> ChatServer:
    return ChatServer(reply)
