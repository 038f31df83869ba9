"""Turns the stored configuration of a run back into the command that started it."""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from configs.schema import IndexCorpus


def changed_settings(config: Mapping[str, Any]) -> list[str]:
    """Return `key.path=value` for every setting of an index that differs from its default, as `--set` takes it."""
    return [*_changed(config, IndexCorpus, "")]


def _changed(config: Mapping[str, Any], model: type[BaseModel], prefix: str) -> Iterator[str]:
    for key, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _changed(config.get(key, {}), kind, f"{key}.")
        elif prefix and key in config:
            default = json.loads(json.dumps(field.get_default(call_default_factory=True), default=str))
            if config[key] != default:
                yield f"{prefix}{key}={json.dumps(config[key]) if not isinstance(config[key], str) else config[key]}"


def index_command(config: Mapping[str, Any], store: Path) -> str:
    """Return `vitalfew index …`, quoted for a shell; the command does not repeat finished work."""
    words = ["vitalfew", "index", *config["datasets"], "--name", config["name"], "--store", str(store)]
    if config.get("runner") == "serial":
        words += ["--runner", "serial"]
    for setting in changed_settings(config):
        words += ["--set", setting]
    return shlex.join(words)
