"""The answer that is served is the answer that was evaluated: by the library, HTTP, OpenAI's client, an agent; and what
the server offers: addresses, methods and parameters, and the tools of an agent."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest
from mcp import Client

import vitalfew as vf
from tests.golden.surface import METHODS, server, towns
from tests.support.evaluating import Answered, answers


def _by_library(store: vf.Store, method: str) -> Callable[[str], Answered]:
    rag = store.rag(f"{towns() / 'shapes.yaml'}:{method}", index="towns")

    def ask(question: str) -> Answered:
        answer = rag.answer(question)
        return answer.text, tuple(context.text for context in answer.contexts), answer.prompt_tokens

    return ask


def _by_http(method: str) -> Callable[[str], Answered]:
    def ask(question: str) -> Answered:
        body = {"question": question, "model": method}
        answer = httpx.post(f"{server()}/answer", json=body, timeout=900).raise_for_status().json()
        return answer["text"], tuple(context["text"] for context in answer["contexts"]), answer["prompt_tokens"]

    return ask


def _by_openais_client(method: str) -> Callable[[str], Answered]:
    def ask(question: str) -> Answered:
        with openai.OpenAI(base_url=f"{server()}/v1", api_key="none", max_retries=0) as client:
            given = client.chat.completions.create(model=method, messages=[{"role": "user", "content": question}])
        contexts = given.model_extra["vitalfew"]["contexts"]
        return given.choices[0].message.content, tuple(each["text"] for each in contexts), given.usage.prompt_tokens

    return ask


def _by_an_agent(question: str) -> str:
    """Return the text that the tool `answer` gives, which asks the first method."""

    async def asked() -> str:
        async with Client(f"{server()}/mcp") as agent:
            return (await agent.call_tool("answer", {"question": question})).content[0].text

    return asyncio.run(asked())


def _models() -> list[str]:
    with openai.OpenAI(base_url=f"{server()}/v1", api_key="none", max_retries=0) as client:
        return [model.id for model in client.models.list()]


@pytest.mark.parametrize("method", METHODS)
def test_served(golden: Callable[[str, str], None], method: str) -> None:
    folder = towns()
    store = vf.Store(folder / "store", progress=False)
    model = next(name for name in _models() if name.endswith(f":{method}"))
    ways = {
        "library": _by_library(store, method),
        "HTTP": _by_http(model),
        "OpenAI's client": _by_openais_client(model),
    }
    lines = []
    for question, expected in answers(store, method).items():
        same = [name for name, ask in ways.items() if ask(question) == expected]
        text, contexts, tokens = expected
        if method == METHODS[0]:
            said = _by_an_agent(question)
            same += ["agent"] if said.splitlines()[0] == text and all(each in said for each in contexts) else []
        lines += [question, f"  {text}  ({tokens} tokens)", *(f"  < {context}" for context in contexts)]
        lines += [f"  the same by: {', '.join(same)}"]
    golden(f"served-{method}.txt", "\n".join(lines))


def _typed(schema: dict[str, Any]) -> str:
    """A short name of a schema: `string`, `integer >= 1`, `Context[]`, `string | null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " | ".join(_typed(each) for each in schema[choice])
    kind = str(schema.get("type", "any"))
    kind = f"{_typed(schema['items'])}[]" if kind == "array" and "items" in schema else kind
    return f"{kind} >= {schema['minimum']}" if "minimum" in schema else kind


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    needed = schema.get("required", [])
    for name, each in schema.get("properties", {}).items():
        default = f" = {each['default']!r}" if each.get("default") is not None else ""
        yield f"  {name}{'' if name in needed else '?'}: {_typed(each)}{default}"


def test_openapi(golden: Callable[[str, str], None]) -> None:
    described = httpx.get(f"{server()}/openapi.json", timeout=900).raise_for_status().json()
    lines = []
    for path, methods in sorted(described["paths"].items()):
        for method, each in sorted(methods.items()):
            body = each.get("requestBody", {}).get("content", {})
            takes = [_typed(content["schema"]) for content in body.values()]
            lines.append(" ".join([method.upper(), path, *takes]))
            for parameter in each.get("parameters", []):
                mark = "" if parameter.get("required") else "?"
                lines.append(f"  {parameter['in']} {parameter['name']}{mark}: {_typed(parameter['schema'])}")
    for name, schema in sorted(described["components"]["schemas"].items()):
        lines += ["", name, *_fields(schema)]
    golden("openapi.txt", "\n".join(lines))


def test_tools_of_agents(golden: Callable[[str, str], None]) -> None:
    async def listed() -> list[Any]:
        async with Client(f"{server()}/mcp") as agent:
            return [*(await agent.list_tools()).tools]

    lines = []
    for tool in asyncio.run(listed()):
        lines += [tool.name, *_fields(tool.input_schema)]
    golden("agents-tools.txt", "\n".join(lines))
