"""Grids: a method whose settings have lists of values is a method for every point of its grid."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

from vitalfew.configs.evaluation import Method
from vitalfew.configs.loading import ConfigError, build, merged
from vitalfew.configs.section import Section
from vitalfew.tasks.registry import options_type

SECTIONS = tuple(name for name in Method.model_fields if name != "name")
KINDS: dict[str, type[Section]] = {
    name: kind
    for name, field in Method.model_fields.items()
    for kind in (field.annotation, *get_args(field.annotation))
    if isinstance(kind, type) and issubclass(kind, Section)
}
"""The sections that name a method with its own options."""
Place = tuple[str, ...]
"""Where a setting stands: ("retrieve", "alpha")."""


@dataclass(frozen=True)
class Draft:
    """The settings of a method; a list of values gives a grid of methods, of which those at `chosen` places are options
    of one method."""

    label: str
    settings: Mapping[str, Any]
    chosen: Collection[Place] = ()


@dataclass(frozen=True)
class Variant:
    """A point of a method's grid. `row`: what it is called without the settings to choose, `values`."""

    row: str
    values: Mapping[str, Any]
    method: Method


def variants(draft: Draft) -> Iterator[Variant]:
    """Every point of its grid. Raises ConfigError, which names the method and the setting."""
    lists = _lists(draft.settings)
    single = _without(draft.settings, {path for path, _ in lists})
    several = {path for path, values in lists if len(values) > 1}
    points: set[str] = set()
    for values in product(*(values for _, values in lists)):
        point = {path: value for (path, _), value in zip(lists, values, strict=True)}
        settings = with_values(single, point)
        point = {path: value for path, value in point.items() if _matters(settings, path)}
        if repr(point) not in points:
            points.add(repr(point))
            chosen = {path: value for path, value in point.items() if path in draft.chosen}
            whole = {section: fitting(section, value) for section, value in with_values(single, point).items()}
            name = draft.label + _suffix(point, several)
            with naming(draft.label):
                method = build(Method, {**whole, "name": name})
            row = draft.label + _suffix(point, several - chosen.keys())
            yield Variant(row, {".".join(path): value for path, value in chosen.items()}, method)


def _suffix(point: Mapping[Place, Any], shown: Collection[Place]) -> str:
    """What a point's values add to the name; a setting that is left to its default (null) adds nothing."""
    return "".join(f" {path[-1]}={value}" for path, value in point.items() if path in shown and value is not None)


def _lists(settings: Mapping[str, Any]) -> list[tuple[Place, list[Any]]]:
    """The settings with a list of values, by path."""
    lists = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            lists += [((key, *path), values) for path, values in _lists(value)]
        elif isinstance(value, (list, tuple)):
            if not value:
                raise ConfigError(f"setting {key!r}: the list must not be empty")
            lists.append(((key,), list(value)))
    return lists


def _matters(settings: Mapping[str, Any], path: Place) -> bool:
    """Whether a method uses a setting: a sweep over alpha does not change naive RAG."""
    section = path[0]
    if section in ("variant", "perturb", "refine", "appraise") and settings["retrieve"] is None:
        return False
    if path == ("variant", "encode", "context"):  # without alpha the context has no weight
        section, path = "retrieve", ("retrieve", "alpha")
    return section not in KINDS or any(
        path[1] in options.model_fields for options in options_types(KINDS[section], settings[section])
    )


def _without(settings: Mapping[str, Any], paths: Collection[Place]) -> dict[str, Any]:
    """The settings without these paths: a method that does not use an axis keeps its default."""
    result = dict(settings)
    for key, value in settings.items():
        if (key,) in paths:
            del result[key]
        elif isinstance(value, Mapping):
            result[key] = _without(value, {path[1:] for path in paths if path[0] == key})
    return result


def with_values(settings: Mapping[str, Any], values: Mapping[Place, Any]) -> dict[str, Any]:
    """The settings with these values at their places."""
    result = dict(settings)
    for path, value in values.items():
        nested: Any = value
        for key in reversed(path):
            nested = {key: nested}
        result = merged(result, nested)
    return result


def leaves(settings: Mapping[str, Any], above: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every setting with its place; `retrieve.alpha` and `retrieve: {alpha}` are the same place."""
    for key, value in settings.items():
        path = (*above, *str(key).split("."))
        if isinstance(value, Mapping):
            yield from leaves(value, path)
        else:
            yield path, value


def fitting(section: str, settings: Any) -> Any:
    """The settings without those of other methods of the kind."""
    if section not in KINDS or not isinstance(settings, Mapping):
        return settings
    fields = {key for options in options_types(KINDS[section], settings) for key in options.model_fields}
    return {key: value for key, value in settings.items() if key in fields}


def method_names(kind: type[Section], settings: Mapping[str, Any]) -> list[str]:
    """The method, or the methods if the settings have a list."""
    named = settings.get(kind.field(), kind.model_fields[kind.field()].default)
    return list(named) if isinstance(named, (list, tuple)) else [named]


def options_types(kind: type[Section], settings: Mapping[str, Any]) -> list[type[Section]]:
    return [options_type(build(kind, {kind.field(): name})) for name in method_names(kind, settings)]


@contextmanager
def naming(label: str) -> Iterator[None]:
    """Adds the method's name to a ConfigError."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError("\n".join(f"method {label}: {line}" for line in str(error).splitlines())) from None
