"""OpenAI's chat completions: the question of a request, and an answer as a completion or as a stream of chunks."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from vitalfew.flows.pipelines.answering import RagAnswer
from vitalfew.flows.serving.errors import Refused
from vitalfew.flows.serving.shapes import ChatBody, Message, checked, contexts

DONE = "data: [DONE]\n\n"


def question_of(body: ChatBody) -> str:
    """The last message of the user. Raises Refused where there is none, or where it cannot be asked."""
    for place, message in reversed([*enumerate(body.messages)]):
        if message.role == "user":
            param = f"messages.{place}.content"
            try:
                return checked(_text(message, param))
            except ValueError as error:
                raise Refused(400, str(error), param=param) from None
    raise Refused(400, "messages has no user message; the last one is the question", param="messages")


def _text(message: Message, param: str) -> str:
    if not isinstance(message.content, list):
        return message.content or ""
    others = {part.type for part in message.content} - {"text"}
    if others:
        raise Refused(400, f"only parts of type 'text' are answered, got {sorted(others)[0][:40]!r}", param=param)
    return "\n".join(part.text for part in message.content)


def completion(answer: RagAnswer, model: str) -> dict[str, Any]:
    """The whole answer."""
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
    head = _head("chat.completion", model, answer)
    return {**head, "choices": [choice], "usage": usage(answer), "vitalfew": extension(answer)}


def chunks(answer: RagAnswer, model: str, include_usage: bool) -> Iterator[str]:
    """The answer as server-sent events, word by word. The method has finished then: rating and selecting need whole
    answers, so there is nothing to show before."""
    head = _head("chat.completion.chunk", model, answer)

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        return _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})

    yield chunk({"role": "assistant", "content": ""})
    for piece in re.findall(r"\s*\S+|\s+$", answer.text):
        yield chunk({"content": piece})
    yield chunk({}, _finish(answer), vitalfew=extension(answer))
    if include_usage:
        yield _event({**head, "choices": [], "usage": usage(answer)})
    yield DONE


def _finish(answer: RagAnswer) -> str:
    """Why the answer ends, in OpenAI's words. A refusal is "content_filter" there."""
    known = {"length": "length", "content_filter": "content_filter", "refusal": "content_filter"}
    return known.get(answer.finish_reason, "stop")


def usage(answer: RagAnswer) -> dict[str, int]:
    """Tokens of all prompts and answers of the question, as the model counts them."""
    total = answer.prompt_tokens + answer.completion_tokens
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": total,
    }


def extension(answer: RagAnswer) -> dict[str, Any]:
    """The part of a completion that OpenAI's shape has no place for."""
    every = (source for context in contexts(answer) for source in context["sources"])
    sources = dict.fromkeys((source["passage_id"], source["title"], source["source_id"]) for source in every)
    return {
        "contexts": contexts(answer),
        "sources": [dict(zip(("passage_id", "title", "source_id"), source, strict=True)) for source in sources],
        "context_tokens": answer.context_tokens,
        "tokens_saved": answer.tokens_saved,
        "fingerprint": answer.fingerprint,
        "seconds": dict(answer.seconds),
        "usd": answer.usd,
        "others": list(answer.others),
    }


def _head(kind: str, model: str, answer: RagAnswer) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": answer.fingerprint,
    }


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"
