"""Experiments: from a YAML file and `--set` to the methods that are set side by side.

A list in the place of a single value is a grid: `--set retrieve.alpha=[0.5,0.8]` makes two methods of each one that
alpha is of any account to.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from configs.evaluation import Evaluate, Experiment, Method, RefineConfig, SelectConfig
from configs.loading import ConfigError, build, merged, read_yaml
from configs.schema import RetrieveConfig
from tasks.registry import UnknownName, resolve

FOLDER = Path(__file__).parents[2] / "configs" / "experiments"
SECTIONS = ("index", "variant", "retrieve", "refine", "generate", "critique", "select")

CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "retrieve": ("retriever", ("top_k",)),
    "refine": ("refiner", ("top_k", "max_words", "max_tokens", "text")),
    "select": ("selector", ()),
}
"""Sections whose settings concern some methods only: what names the method, and what concerns all."""
DEFAULTS = {
    "retriever": RetrieveConfig().retriever,
    "refiner": RefineConfig().refiner,
    "selector": SelectConfig().selector,
}


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
    """An experiment's settings as parameters of the flow. What was `given` besides wins, also over what single methods
    have of their own. Raises ConfigError."""
    layer: dict[str, Any] = {}
    for each in given:
        layer = merged(layer, each)
    wins = {section: layer.pop(section) for section in SECTIONS[1:] if section in layer}
    experiment = build(Experiment, settings, layer)
    defaults = {section: getattr(experiment, section) for section in SECTIONS}
    methods = [
        method
        for label, own in experiment.methods.items()
        for method in _methods(label, _overridden(merged(defaults, own or {}), wins))
    ]
    shared = experiment.model_dump(include={*Evaluate.model_fields} - {"methods"})
    return build(Evaluate, {**shared, "name": name, "methods": methods})


def _overridden(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """With what was given besides; what a method does not do (null) has no settings to override."""
    return merged(settings, {key: value for key, value in given.items() if settings.get(key, {}) is not None})


def _methods(label: str, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A method for each point of its grid. Raises ConfigError that names the method and the setting."""
    lists = _lists(settings)
    axes = [(path, values) for path, values in lists if _matters(settings, path)]
    single = _without(settings, {path for path, _ in lists})
    for point in product(*(values for _, values in axes)):
        chosen = {path: value for (path, _), value in zip(axes, point, strict=True)}
        suffix = "".join(f" {path[-1]}={value}" for path, value in chosen.items() if len(dict(axes)[path]) > 1)
        try:
            method = build(Method, {**_with(single, chosen), "name": label + suffix})
        except ConfigError as error:
            raise ConfigError("\n".join(f"method {label}: {line}" for line in str(error).splitlines())) from None
        yield method.model_dump()


def _lists(settings: Mapping[str, Any]) -> list[tuple[tuple[str, ...], list[Any]]]:
    """Every setting that has a list of values, by its path."""
    found = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found += [((key, *path), values) for path, values in _lists(value)]
        elif isinstance(value, (list, tuple)):
            if not value:
                raise ConfigError(f"setting {key!r}: an empty list")
            found.append(((key,), list(value)))
    return found


def _matters(settings: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """Whether a method has any use for a setting: a sweep over alpha leaves naive RAG as it is."""
    if path[0] in ("variant", "refine") and settings["retrieve"] is None:
        return False
    # Without alpha there is no context to be weighed in.
    section, setting = ("retrieve", "alpha") if path == ("variant", "encode", "context") else (path[0], path[-1])
    kind, general = CHOICES.get(section, ("", ()))
    if not kind or settings[section] is None or setting in (kind, *general):
        return True
    named = settings[section].get(kind, DEFAULTS[kind])
    each = named if isinstance(named, (list, tuple)) else [named]
    return any(setting in _settings_of(resolve(kind, name)) for name in each)


def _settings_of(method: Any) -> Collection[str]:
    return method.Options.model_fields if hasattr(method, "Options") else method.settings


def _without(settings: Mapping[str, Any], paths: Collection[tuple[str, ...]]) -> dict[str, Any]:
    """Without these settings: an axis that is of no account to a method leaves it at the default."""
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
