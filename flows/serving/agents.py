"""Tools for agents over the Model Context Protocol (MCP): search, answer, read.

No result is ever longer than `max_tokens`, words and punctuation marks, because an agent pays for all that it reads. A
passage's id is text: a client in JavaScript would round a number of 63 bits.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from vitalfew.flows.pipelines.answering import Answering, RagAnswer
from vitalfew.flows.serving import configurations
from vitalfew.flows.serving.configurations import Served
from vitalfew.flows.serving.errors import OUTAGES, Refused, of_computing
from vitalfew.flows.serving.recording import current
from vitalfew.tasks.datasets.base import InputError, check_question
from vitalfew.tasks.retrieve import Hit
from vitalfew.tasks.splitters.tokens import count_tokens, first

MOST = 4000
"""Tokens of a result, at most."""
INSTRUCTIONS = (
    "Search a corpus, and get answers from it. Use `answer` for a question with a short answer, and `search` for "
    "everything else. `read` a passage where a sentence alone does not say enough."
)
T = TypeVar("T")
MaxTokens = Annotated[int, Field(ge=1, le=MOST, description="Maximum words and punctuation marks of the result.")]


@dataclass(frozen=True)
class Doors:
    """The calls of the tools, in threads: `search` gives the hits of a question, best first; `answer` an answer;
    `read` a row of `passages` by its id, or raises KeyError."""

    search: Callable[[str], Sequence[Hit]]
    answer: Callable[[str], RagAnswer]
    read: Callable[[int], dict[str, Any]]

    @classmethod
    def of(cls, answering: Answering) -> "Doors":
        """The doors of one configured method, for one agent: calls take turns."""

        def read(passage_id: int) -> dict[str, Any]:
            if answering.passages is None:
                raise InputError(f"the method {answering.configured.method.name} has no index to read")
            return answering.passages.row(passage_id)

        return cls(
            lambda question: configurations.search(answering, [question])[0],
            lambda question: answering.answer([question])[0],
            read,
        )

    @classmethod
    def served(cls, served: Served) -> "Doors":
        """The doors of a server's configuration: calls wait in its line, like all other requests."""

        def waited(task: str, question: str) -> Any:
            check_question(question)
            current().asked(served.name, question, served.answering.fingerprint)
            current().found(result := served.line.submit(task, question, len(question)).result())
            return result

        def read(passage_id: int) -> dict[str, Any]:
            current().asked(served.name, None, served.answering.fingerprint)
            return cls.of(served.answering).read(passage_id)

        return cls(lambda question: waited("search", question), lambda question: waited("answer", question), read)


def agents_server(doors: Doors) -> MCPServer:
    """The MCP server with its three tools. An error that the agent can correct is a tool's error, with a sentence."""
    server: MCPServer = MCPServer("vitalfew", version=version("vitalfew"), instructions=INSTRUCTIONS)
    reads = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

    @server.tool(annotations=reads, structured_output=False)
    async def search(question: str, max_tokens: MaxTokens = 500) -> str:
        """Find the sentences or passages that fit a question best. Every line begins with the id of its passage."""
        hits = await _called("search", doors.search, question)
        lines = (f"[{hit.passage_id}] {_titled(hit.title, hit.text)}" for hit in hits)
        return _fitting(lines, max_tokens) or "nothing found"

    @server.tool(annotations=reads, structured_output=False)
    async def answer(question: str, max_tokens: MaxTokens = 500) -> str:
        """Answer a question. Below the answer stand its texts, with the ids of their passages."""
        found = await _called("answer", doors.answer, question)
        if found.error:
            raise ToolError(f"no answer: {found.error}")
        return _fitting([found.text, *_sources(found)], max_tokens)

    @server.tool(annotations=reads, structured_output=False)
    async def read(passage_id: str, start: Annotated[int, Field(ge=0)] = 0, max_tokens: MaxTokens = 500) -> str:
        """Read a passage, from the character `start`. Where it goes on, the last line says with which `start`."""
        if not passage_id.isdecimal():
            raise ToolError(f"passage_id must be a number that `search` gave, got {passage_id[:50]!r}")
        row = await _called("read", doors.read, int(passage_id))
        return _part(_titled(row["title"], row["text"]), start, max_tokens)

    return server


async def _called(tool: str, call: Callable[..., T], *arguments: Any) -> T:
    """Call in a thread. Raises ToolError, with the sentence of an error that its reader can correct."""
    current().tool = tool
    try:
        return await asyncio.to_thread(call, *arguments)
    except OUTAGES as error:
        current().error = message = str(of_computing(error, "the method"))
        raise ToolError(message) from error
    except (ValueError, LookupError, OSError, Refused) as error:
        current().error = message = str(error.args[-1] if isinstance(error, KeyError) else error)
        raise ToolError(message) from error


def _titled(title: str, text: str) -> str:
    return f"{title}: {text.strip()}" if title else text.strip()


def _sources(answer: RagAnswer) -> Iterable[str]:
    for context in answer.contexts:
        ids = dict.fromkeys(str(source.passage_id) for source in context.sources)
        yield f"[{', '.join(ids)}] {context.text.strip()}"


def _fitting(lines: Iterable[str], max_tokens: int) -> str:
    """The first lines that fit; of the very first, as much as fits."""
    kept: list[str] = []
    for line in lines:
        tokens = count_tokens(line)
        if tokens > max_tokens:
            return "\n".join(kept) or first(line, None, max_tokens)
        kept.append(line)
        max_tokens -= tokens
    return "\n".join(kept)


def _part(text: str, start: int, max_tokens: int) -> str:
    """As much of a text as fits, with a last line where it goes on."""
    rest = text[start:]
    if count_tokens(rest) <= max_tokens:
        return rest
    room = max_tokens - count_tokens(_goes_on(len(text)))
    if room > 0 and (part := first(rest, None, room)):
        return f"{part}\n{_goes_on(start + len(part))}"
    return first(rest, None, max_tokens)


def _goes_on(start: int) -> str:
    return f"(continues: start={start})"
