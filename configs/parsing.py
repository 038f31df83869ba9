"""YAML that people write: names that are what they look like and stand once, aliases that end."""

import re
from typing import Any, ClassVar

import yaml

MOST_VALUES = 100_000
"""With those that aliases repeat: nine lines of aliases can stand for a billion values."""
DEEPEST = 100
"""Values that a value is in at most. What libyaml makes of a text calls itself for each and ends the process at
some ten thousand; its events, of which the depth is counted first, do not."""


def parse(text: str) -> Any:
    """The value. Raises ValueError that names the line where that is known."""
    try:
        _check_depth(text)
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, _Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(
                f"line {event.start_mark.line + 1}: the values nest too deeply (more than {DEEPEST} times)"
            )


_BASE_TEN = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(?:0b[01_]+|0x[\da-fA-F_]+|0[0-7_]*|[1-9][\d_]*)$"),
    "tag:yaml.org,2002:float": re.compile(
        r"[-+]?(?:\d[\d_]*\.[\d_]*(?:[eE][-+]\d+)?|\.\d[\d_]*(?:[eE][-+]\d+)?|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$"
    ),
}
"""Numbers as YAML 1.1 writes them, without `1:30` for 90."""


# libyaml parses ten times as fast as PyYAML alone, which lacks it on some machines.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """`on: development` has the name "on", which YAML 1.1 takes for true, and `at: 12:30` is no number to base 60."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {
        first: [(tag, _BASE_TEN.get(tag, pattern)) for tag, pattern in known]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_document(self, node: yaml.Node) -> Any:
        _check(node, {})
        return super().construct_document(node)


def _check(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many values a node has. `sizes`: of the nodes that were checked; 0 for those that this one is part of."""
    line = node.start_mark.line + 1
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise ValueError(f"line {line}: this value contains itself by an alias; write it out")
        return sizes[id(node)]
    sizes[id(node)] = 0
    size = 1 + sum(_check(part, sizes) for part in _parts(node))
    if size > MOST_VALUES:
        raise ValueError(f"line {line}: more than {MOST_VALUES:,} values, counting those that aliases repeat")
    sizes[id(node)] = size
    return size


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        _check_names([key for key, _ in node.value])
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _check_names(keys: list[yaml.Node]) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key in keys:
        if key.tag == "tag:yaml.org,2002:bool":
            key.tag = "tag:yaml.org,2002:str"
        if not isinstance(key, yaml.ScalarNode):
            continue
        line, name = key.start_mark.line + 1, (key.tag, key.value)
        if name in lines:
            raise ValueError(f"line {line}: the name {key.value!r} is already in line {lines[name]}; keep one of them")
        lines[name] = line
