"""What `vitalfew serve` offers: addresses, methods and parameters over HTTP, and the tools of an agent."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from mcp import Client

from tests.golden.surface import server


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
    described = httpx.get(f"{server()}/openapi.json", timeout=60).raise_for_status().json()
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
