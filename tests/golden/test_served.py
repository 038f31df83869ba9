"""The answer that is served is the answer that was evaluated: by the library, HTTP, OpenAI's client, an agent."""

import asyncio
from collections.abc import Callable

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
        answer = httpx.post(f"{server()}/answer", json=body, timeout=60).raise_for_status().json()
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
