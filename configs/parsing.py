"""YAML that people write: names that are what they look like and stand once, aliases that end."""

from typing import Any

import yaml

MOST_VALUES = 100_000
"""With those that aliases repeat: nine lines of aliases can stand for a billion values."""


def parse(text: str) -> Any:
    """The value. Raises ValueError that names the line where that is known."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    except RecursionError:
        raise ValueError("the values nest too deeply") from None


# libyaml parses ten times as fast as PyYAML alone, which lacks it on some machines.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """`on: development` has the name "on", which YAML 1.1 takes for true."""

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
