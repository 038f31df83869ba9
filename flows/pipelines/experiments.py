"""Experiments: from a YAML file and `--set` to the methods that are compared.

A list in place of a single value is a grid: `--set retrieve.alpha=[0.5,0.8]` turns every method that uses alpha into
two methods.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

from configs.evaluation import Evaluate, Experiment, Method, ScoreConfig
from configs.loading import ConfigError, build, merged, read_yaml
from configs.section import Section
from tasks.registry import UnknownName, completed, nearest, options_type, where, with_options

FOLDER = Path(__file__).parents[2] / "configs" / "experiments"
ANY_INDEX = {"index": "any"}
SECTIONS = tuple(name for name in Method.model_fields if name != "name")
KINDS: dict[str, type[Section]] = {
    name: kind
    for name, field in Method.model_fields.items()
    for kind in (field.annotation, *get_args(field.annotation))
    if isinstance(kind, type) and issubclass(kind, Section)
}
"""The sections that name a method with its own options."""


def names() -> list[str]:
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml"))


def find(name: str) -> tuple[str, dict[str, Any]]:
    """An experiment's name and settings: one of configs/experiments, or a file. Raises UnknownName, ConfigError."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path.stem, read_yaml(path)
    path = FOLDER / f"{name}.yaml"
    if name not in names():
        raise UnknownName("experiment", name, names())
    return name, read_yaml(path)


def evaluation(name: str, settings: Mapping[str, Any], *given: Mapping[str, Any]) -> Evaluate:
    """An experiment's settings as parameters of the flow. `given` takes precedence, also over the settings of single
    methods.

    A setting for all methods applies to those that have such an option. Raises ConfigError if no method has it, or if a
    method lacks an option that is set for it alone.
    """
    layer: dict[str, Any] = {}
    for part in given:
        layer = merged(layer, part)
    wins = {section: layer.pop(section) for section in SECTIONS[1:] if section in layer}
    score = _score(settings.get("score") or {}, layer.pop("score", {}))
    experiment = build(Experiment, settings, layer)
    drafts = [_draft(label, experiment, own or {}, wins) for label, own in experiment.methods.items()]
    methods = [method for draft in drafts for method in _methods(draft)]
    for section, kind in KINDS.items():
        for key in {**(getattr(experiment, section) or {}), **(wins.get(section) or {})}:
            if not any(key in (draft.settings[section] or {}) for draft in drafts):
                raise ConfigError(_nobody_has(name, section, key, kind, drafts))
    for section in wins.keys() - KINDS.keys() - {"variant"}:
        if all(draft.settings[section] is None for draft in drafts):
            raise ConfigError(_nobody_does(name, section, next(iter(wins[section] or {}), "")))
    shared = {key: getattr(experiment, key) for key in Evaluate.model_fields if key not in ("name", "methods", "score")}
    return complete(build(Evaluate, {**shared, "score": score, "name": name, "methods": methods}))


def complete(parameters: Evaluate) -> Evaluate:
    """The parameters with complete sections, as the Options of their methods. Raises UnknownName, and ConfigError,
    which names the method."""
    methods = []
    for method in parameters.methods:
        with _named(method.name):
            methods.append(completed(method))
    return completed(parameters).model_copy(update={"methods": tuple(methods)})


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Adds the method's name to a ConfigError."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError("\n".join(f"method {label}: {line}" for line in str(error).splitlines())) from None


def _score(settings: Mapping[str, Any], given: Mapping[str, Any]) -> ScoreConfig:
    """`given` takes precedence; if it names other metrics, options of the experiment's metrics alone are dropped."""
    if "metrics" not in given:
        return build(ScoreConfig, settings, given)
    usual = with_options(build(ScoreConfig, settings), "score")
    chosen = build(ScoreConfig, settings, given)
    return chosen.without(usual.given().keys() - given.keys() - options_type(chosen).model_fields.keys())


@dataclass(frozen=True)
class _Draft:
    """The settings of a method; a list of values gives a grid of methods."""

    label: str
    settings: Mapping[str, Any]


def _draft(label: str, experiment: Experiment, own: Mapping[str, Any], wins: Mapping[str, Any]) -> _Draft:
    """The experiment's settings that this method has, its own settings, and those that take precedence over both."""
    defaults = {section: getattr(experiment, section) for section in SECTIONS}
    settings = merged(defaults, own)
    for section, kind in KINDS.items():
        if settings.get(section) is not None and isinstance(special := own.get(section) or {}, Mapping):
            with _named(label):
                _check_own(section, kind, settings[section], special)
    # A section that a method omits (null) takes no settings.
    settings = merged(settings, {key: value for key, value in wins.items() if settings.get(key, {}) is not None})
    return _Draft(label, {section: _fitting(section, value) for section, value in settings.items()})


def _check_own(section: str, kind: type[Section], settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raises ConfigError, UnknownName for a setting that the method itself lacks."""
    fields = {key for options in _options(kind, settings) for key in options.model_fields}
    if unknown := {key: value for key, value in own.items() if key not in fields}:
        with_options(build(kind, {kind.field(): _names(kind, settings)[0], **unknown}), section)


def _fitting(section: str, settings: Any) -> Any:
    """The settings without those of other methods of the kind."""
    if section not in KINDS or not isinstance(settings, Mapping):
        return settings
    fields = {key for options in _options(KINDS[section], settings) for key in options.model_fields}
    return {key: value for key, value in settings.items() if key in fields}


def _names(kind: type[Section], settings: Mapping[str, Any]) -> list[str]:
    """The method, or the methods if the settings have a list."""
    named = settings.get(kind.field(), kind.model_fields[kind.field()].default)
    return list(named) if isinstance(named, (list, tuple)) else [named]


def _options(kind: type[Section], settings: Mapping[str, Any]) -> list[type[Section]]:
    return [options_type(build(kind, {kind.field(): name})) for name in _names(kind, settings)]


def _nobody_has(name: str, section: str, key: str, kind: type[Section], drafts: Sequence[_Draft]) -> str:
    """The error message for a setting that no method of an experiment has."""
    used = [draft.settings[section] for draft in drafts if draft.settings[section] is not None]
    if not used:
        return _nobody_does(name, section, key)
    known = sorted(
        {field for settings in used for options in _options(kind, settings) for field in options.model_fields}
    )
    owners = where(kind(), section, key)
    close = "" if owners else nearest(f"{section}.{key}", [f"{section}.{field}" for field in known])
    reason = owners or f"known: {', '.join(known)}"
    return f"unknown setting '{section}.{key}'{close} for the methods of {name}; {reason}"


def _nobody_does(name: str, section: str, key: str) -> str:
    able = [other for other in names() if any(getattr(m, section) for m in evaluation(*find(other), ANY_INDEX).methods)]
    return f"{section}.{key}: no method of {name} has a section `{section}`; try {', '.join(able)}"


def _methods(draft: _Draft) -> Iterator[Method]:
    """A method for every point of its grid. Raises ConfigError, which names the method and the setting."""
    lists = _lists(draft.settings)
    single = _without(draft.settings, {path for path, _ in lists})
    points: set[str] = set()
    for values in product(*(values for _, values in lists)):
        point = {path: value for (path, _), value in zip(lists, values, strict=True)}
        settings = _with(single, point)
        point = {path: value for path, value in point.items() if _matters(settings, path)}
        if repr(point) not in points:
            points.add(repr(point))
            suffix = "".join(f" {path[-1]}={value}" for path, value in point.items() if len(dict(lists)[path]) > 1)
            chosen = {section: _fitting(section, value) for section, value in _with(single, point).items()}
            with _named(draft.label):
                yield build(Method, {**chosen, "name": draft.label + suffix})


def _lists(settings: Mapping[str, Any]) -> list[tuple[tuple[str, ...], list[Any]]]:
    """The settings with a list of values, by path."""
    lists = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            lists += [((key, *path), values) for path, values in _lists(value)]
        elif isinstance(value, (list, tuple)):
            if not value:
                raise ConfigError(f"setting {key!r}: an empty list")
            lists.append(((key,), list(value)))
    return lists


def _matters(settings: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """Whether a method uses a setting: a sweep over alpha does not change naive RAG."""
    section = path[0]
    if section in ("variant", "refine") and settings["retrieve"] is None:
        return False
    if path == ("variant", "encode", "context"):  # without alpha the context has no weight
        section, path = "retrieve", ("retrieve", "alpha")
    return section not in KINDS or any(
        path[1] in options.model_fields for options in _options(KINDS[section], settings[section])
    )


def _without(settings: Mapping[str, Any], paths: Collection[tuple[str, ...]]) -> dict[str, Any]:
    """The settings without these paths: a method that does not use an axis keeps its default."""
    result = dict(settings)
    for key, value in settings.items():
        if (key,) in paths:
            del result[key]
        elif isinstance(value, Mapping):
            result[key] = _without(value, {path[1:] for path in paths if path[0] == key})
    return result


def _with(settings: Mapping[str, Any], values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    result = dict(settings)
    for path, value in values.items():
        nested: Any = value
        for key in reversed(path):
            nested = {key: nested}
        result = merged(result, nested)
    return result
