"""From a YAML file and `--set key.path=value` to a validated configuration, with errors that name the key."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from vitalfew.configs.parsing import parse

Model = TypeVar("Model", bound=BaseModel)


class ConfigError(ValueError):
    """A setting that the user has to correct: the message names the file or option, the key and the remedy."""


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises ConfigError where it is missing, malformed or not a mapping."""
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: the file must be a mapping of settings, got {type(content).__name__}")
    return content


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """`["index.alpha=0.5"]` → `{"index": {"alpha": 0.5}}`; values are read as YAML. Raises ConfigError."""
    result: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise ConfigError(f"--set {assignment}: write key.path=value, for example --set index.alpha=0.5")
        try:
            parsed = parse(value)
        except ValueError as error:
            raise ConfigError(f"--set {assignment}: the value is not valid YAML: {error}") from error
        if value.endswith(":") and isinstance(parsed, Mapping):  # as YAML, a section without content
            parsed = value
        for key in reversed(keys):
            parsed = {key: parsed}
        result = merged(result, parsed)
    return result


def merged(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `override` laid over it, section by section."""
    result = dict(base)
    for key, value in override.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its path, such as `encode.context`."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def build(model: type[Model], *layers: Mapping[str, Any], path: str = "") -> Model:
    """Validate the layers, later ones winning. `path`: of the model in the settings, for messages. Raises ConfigError
    that names every wrong key and the nearest known."""
    values: dict[str, Any] = {}
    for layer in layers:
        values = merged(values, layer)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(explained(error, model, path))) from None


def explained(error: ValidationError, model: type[BaseModel], prefix: str = "") -> list[str]:
    """One line per fault of a validation, in words, with the known keys where a key is unknown. `prefix`: of the model
    in the settings."""
    return [_explain(fault, model, prefix) for fault in error.errors()]


def _explain(fault: Any, model: type[BaseModel], prefix: str) -> str:
    path = [str(part) for part in fault["loc"]]
    name = ".".join([*filter(None, [prefix]), *path])
    if fault["type"] == "extra_forbidden":
        return unknown_setting(name, path[-1], _known_keys(model, path[:-1]))
    if fault["type"] == "missing":
        return f"setting {name!r} is missing"
    if not path:  # of the settings together
        return fault["msg"].removeprefix("Value error, ")
    return f"setting {name!r}: {fault['msg']} (got {_shown(fault['input'])})"


def unknown_setting(name: str, key: str, known: Sequence[str]) -> str:
    """The line of a setting, by its whole name and the last part of it, with the nearest known key."""
    close = get_close_matches(key, known, n=1)
    hint = f" (did you mean {name[: -len(key)] + close[0]!r}?)" if close else ""
    return f"unknown setting {name!r}{hint}; known: {few(key, known, '--help')}"


_MANY = 12


def few(name: str, known: Sequence[str], where: str) -> str:
    """Known names in a message: all, or of many the three nearest and `where` the others are listed, if anywhere. Names
    of several words are in quotes."""
    kept = known if len(known) <= _MANY or not where else get_close_matches(name, known, n=3, cutoff=0)
    spaced = any(" " in each for each in kept)
    listed = ", ".join(repr(each) if spaced else each for each in kept)
    return listed + (f" and {len(known) - len(kept)} more ({where})" if len(kept) < len(known) else "")


def _shown(value: Any) -> str:
    """The start of a value, and an address without what may be a key in it."""
    text = repr(value)
    text = re.sub(r"(?<=://)[^/\s'\"]*@|(?<=\?)[^\s'\"]+", "…", text) if "://" in text else text
    return text if len(text) <= 200 else f"{text[:200]}…"


def _known_keys(model: type[BaseModel], path: list[str]) -> list[str]:
    for part in path:
        annotation = model.model_fields[part].annotation if part in model.model_fields else None
        models = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
        model = next((kind for kind in models if issubclass(kind, BaseModel)), BaseModel)  # also of "Model | None"
    return sorted((*model.model_fields, *getattr(model, "also", ())))
