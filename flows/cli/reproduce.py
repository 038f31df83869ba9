"""Turns the stored configuration of a run back into the command that started it."""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vitalfew.configs.schema import IndexCorpus
from vitalfew.configs.section import Config
from vitalfew.tasks.registry import as_recorded, completed


def changed_settings(config: Mapping[str, Any]) -> list[str]:
    """Return `key.path=value` for every setting of an index that differs from its default, as `--set` takes it."""
    settings = completed(IndexCorpus.model_validate(config), read=as_recorded)
    values = {name: getattr(settings, name) for name in IndexCorpus.model_fields}
    sections = {name: value for name, value in values.items() if isinstance(value, Config)}
    return [setting for name, section in sections.items() for setting in _changed(section, f"{name}.")]


def _changed(section: Config, prefix: str) -> Iterator[str]:
    values = section.model_dump(mode="json")
    for key, field in type(section).model_fields.items():
        if values[key] != json.loads(json.dumps(field.get_default(call_default_factory=True), default=str)):
            yield f"{prefix}{key}={values[key] if isinstance(values[key], str) else json.dumps(values[key])}"


def index_command(config: Mapping[str, Any], store: Path) -> str:
    """Return `vitalfew index …`, quoted for a shell; the command does not repeat finished work."""
    words = ["vitalfew", "index", *config["datasets"], "--name", config["name"], "--store", str(store)]
    if config.get("runner") == "serial":
        words += ["--runner", "serial"]
    for setting in changed_settings(config):
        words += ["--set", setting]
    return shlex.join(words)
