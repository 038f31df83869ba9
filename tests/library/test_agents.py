"""The tools for agents, called by the real client of the package `mcp`."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters

import vitalfew as vf
from vitalfew.flows.pipelines.answering import RagAnswer, RagContext, RagSource
from vitalfew.flows.serving.agents import MOST, Doors, agents_server
from vitalfew.tasks.retrieve import Hit
from vitalfew.tasks.splitters.tokens import count_tokens

TEXT = "The mill was built in 1728. Now 400 people live there, and a railway reaches it. " * 40
QUESTION = "When was the mill built in Dunmar?"


def hit(rank: int) -> Hit:
    text = TEXT[: 40 * rank]
    named = {"title": "Kessmar" * (rank % 2), "source_id": f"{rank}.md", "text": text}
    return Hit(rank=rank, score=1 / rank, unit_id=0, passage_id=2**62 + rank, start=0, end=len(text), **named)


def an_answer(question: str) -> RagAnswer:
    contexts = tuple(RagContext(TEXT[:90], 20, (RagSource(2**62 + n, "Kessmar", 0, 90),)) for n in range(30))
    error = "the model is away" if "fail" in question else ""
    return RagAnswer(question, "1728", contexts, 9, 1, 600, 40, {}, 0.0, "f", error=error)


def passage(passage_id: int) -> dict[str, Any]:
    if passage_id != 2**62:
        raise KeyError(f"there is no passage {passage_id} in this index")
    return {"title": "Kessmar", "text": TEXT}


SERVER = agents_server(Doors(lambda question: [hit(rank) for rank in range(1, 30)], an_answer, passage))


def call(server: Any, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Return whether it is an error, and the text."""

    async def called() -> tuple[bool, str]:
        async with Client(server) as client:
            result = await client.call_tool(tool, arguments)
            return bool(result.is_error), "".join(part.text for part in result.content)  # type: ignore[union-attr]

    return asyncio.run(called())


def test_there_are_three_tools_that_only_read() -> None:
    async def listed() -> list[Any]:
        async with Client(SERVER) as client:
            return [*(await client.list_tools()).tools]

    tools = asyncio.run(listed())
    assert len(tools) == 3
    assert all(tool.description and tool.annotations.read_only_hint for tool in tools)


@settings(max_examples=20)
@given(st.integers(1, MOST), st.sampled_from(["search", "answer", "read"]))
def test_no_result_is_longer_than_max_tokens(max_tokens: int, tool: str) -> None:
    given_to = {"passage_id": str(2**62)} if tool == "read" else {"question": QUESTION}
    is_error, text = call(SERVER, tool, max_tokens=max_tokens, **given_to)
    assert not is_error
    assert 0 < count_tokens(text) <= max_tokens


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("answer", {"question": "Will it fail?"}, "no answer: the model is away"),
        ("read", {"passage_id": "5"}, "there is no passage 5 in this index"),
    ],
)
def test_an_error_says_what_is_wrong(tool: str, arguments: dict[str, Any], message: str) -> None:
    is_error, text = call(SERVER, tool, **arguments)
    assert is_error
    assert message in text


@pytest.mark.slow
def test_the_command_serves_over_standard_input(store: vf.Store, corpus: Path) -> None:
    name = f"{corpus / 'shapes.yaml'}:cut"
    program = [sys.executable, "-m", "vitalfew.flows.cli", "mcp", name, "--store", str(store.place)]
    server = StdioServerParameters(command=program[0], args=program[1:])

    async def asked() -> list[str]:
        async with Client(server) as client:
            found = await client.call_tool("search", {"question": QUESTION, "max_tokens": 60})
            (passage_id,) = re.findall(r"^\[(\d+)\]", found.content[0].text)[:1]  # type: ignore[union-attr]
            read = await client.call_tool("read", {"passage_id": passage_id})
            return [result.content[0].text for result in (found, read)]  # type: ignore[union-attr]

    found, read = asyncio.run(asked())
    assert count_tokens(found) <= 60
    assert "The mill was built in" in read
