"""The index that a method searches: the named one, or an index of the same corpus with other settings."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from vitalfew.configs.evaluation import Evaluate, Method
from vitalfew.configs.loading import ConfigError, build, merged
from vitalfew.configs.schema import USUAL_CONTEXT, EncodeConfig, IndexCorpus
from vitalfew.configs.section import Section
from vitalfew.storage.indexes.opened import IndexMismatch
from vitalfew.storage.runs import NamedIndex, find_index, index_names
from vitalfew.tasks.registry import as_recorded, completed, make, with_options

SECTIONS = tuple(name for name, field in IndexCorpus.model_fields.items() if isinstance(field.default, BaseModel))
"""Of the settings, those that decide an index of given sources."""


def with_indexes(parameters: Evaluate) -> Evaluate:
    """The parameters with the name of the index that a method's `variant` asks for.

    Raises IndexNotFound, ConfigError, and IndexMismatch, with the command that makes the index, if there is none.
    """
    methods = [
        method.model_copy(update={"index": _variant(parameters.store, method, method.index)})
        if method.variant and method.retrieve and method.index
        else method
        for method in parameters.methods
    ]
    return parameters.model_copy(update={"methods": tuple(methods)})


def with_texts(parameters: Evaluate) -> Evaluate:
    """The parameters with what every method's contexts show: where nothing is said, what its index was encoded from.
    Raises IndexNotFound."""
    methods = tuple(_shown(parameters.store, method) for method in parameters.methods)
    return parameters.model_copy(update={"methods": methods})


def _shown(store: Path, method: Method) -> Method:
    refine = method.refine
    if not (method.retrieve and method.index) or (refine.text and not (refine.is_wider and refine.titles is None)):
        return method
    encoding = EncodeConfig.recorded(find_index(store, method.index).config["encode"])
    shown = {"titles": encoding.text == "titled"} if refine.text else {"text": encoding.text}
    return method.model_copy(update={"refine": refine.model_copy(update=shown)})


def _variant(store: Path, method: Method, index: str) -> str:
    """The index itself if it has the settings, else the most similar index of the same passages that has them."""
    base = find_index(store, index)
    try:
        wanted = _settings(merged(base.config, method.variant))
        _check(method.variant, base)
    except ConfigError as error:
        raise ConfigError(f"method {method.name}, variant: {error}") from None
    asked = dict(_flat({section: method.variant[section] for section in SECTIONS if section in method.variant}))
    if unknown := method.variant.keys() - set(SECTIONS):
        raise ConfigError(
            f"method {method.name}: variant has an unknown section {min(unknown)!r}; known: {', '.join(SECTIONS)}"
        )
    unit = make(method.retrieve, "retrieve").unit if method.retrieve else ""
    differences = {
        name: sum(settings.get(key) != wanted.get(key) for key in wanted.keys() | settings.keys())
        for name, settings in _indexes_of(store, base)
        if all(settings.get(key) == wanted[key] for key in asked) and unit in settings["encode.units"]
    }
    if differences:
        return min(differences, key=lambda name: (differences[name], name != index, name))
    settings_due = " and ".join(f"{key}={_text(wanted[key])}" for key in asked)
    raise IndexMismatch(
        f"method {method.name} needs an index of the corpus of {index!r} with {settings_due}; to make it, run\n  "
        f"{_command(store, base, wanted, asked)}"
    )


def _check(variant: Mapping[str, Any], base: NamedIndex) -> None:
    """Raises UnknownName, ConfigError for a setting that its method lacks."""
    whole = build(IndexCorpus, base.config)
    for name, settings in variant.items():
        section = getattr(whole, name, None)
        if isinstance(section, Section):
            field = section.field()
            with_options(build(section.shared(), {field: getattr(section, field)}, settings), name)


def _indexes_of(store: Path, base: NamedIndex) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every index of the same passages, with its settings."""
    for name in index_names(store):
        index = find_index(store, name)
        if index.artifacts["passages"] == base.artifacts["passages"]:
            yield name, _settings(index.config)


def _settings(config: Mapping[str, Any], read: Callable[[Section, str], Section] = as_recorded) -> dict[str, Any]:
    """By path ("encode.context"), all settings that determine an index of given sources. For an index of an older
    version, newer settings are what that did or their defaults, and settings that no longer exist are dropped."""
    whole = completed(build(IndexCorpus, config), read=read).model_dump(mode="json")
    return dict(_flat({section: whole[section] for section in SECTIONS}))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _command(store: Path, base: NamedIndex, wanted: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    usual = _settings({"datasets": base.config["datasets"], "name": base.name}, with_options)
    usual |= {"encode.context": USUAL_CONTEXT}
    sets = [f"{key}={_text(wanted[key])}" for key in wanted if wanted[key] != usual.get(key) or key in asked]
    named = [key for key in asked if key != "encode.reuse"] or [*asked]
    name = "-".join([base.name, *(f"{key.rpartition('.')[2]}-{_text(wanted[key])}" for key in named)])
    name = re.sub(r"[^A-Za-z0-9._]+", "-", name)[:100].strip("-")
    parts = ["vitalfew", "index", *base.config["datasets"], "--name", name]
    parts += [part for assignment in sets for part in ("--set", assignment)]
    parts += [] if str(store) == "store" else ["--store", str(store)]
    return " ".join(map(shlex.quote, parts))


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
