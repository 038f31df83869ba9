"""What is in the indexes that an evaluation searched, and what they took, read from the store."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from configs.evaluation import Method
from storage.artifacts import Manifest
from storage.runs import NamedIndex, find_index
from tasks.reports.contents import IndexResult
from tasks.reports.runs import read_manifest

SHOWN = ("encoder", "context", "units")


def index_results(store: Path, methods: Sequence[Method]) -> tuple[IndexResult, ...]:
    """Of every index that a method searches. Raises IndexNotFound or NoReport where one was removed since."""
    names = dict.fromkeys(method.index for method in methods if method.index and method.retrieve)
    used = {name: tuple(method.name for method in methods if method.index == name) for name in names}
    return tuple(_result(store, find_index(store, name), used[name]) for name in names if name)


def models(store: Path, methods: Sequence[Method]) -> tuple[str, ...]:
    """The encoders and generators that took part, every one once."""
    encoders = [find_index(store, method.index).config["encode"] for method in methods if method.index]
    named = [_named("encoder", settings["encoder"], settings.get("model")) for settings in encoders]
    generators = [method.generate for method in methods if method.generate]
    named += [_named("generator", section.generator, getattr(section, "model", None)) for section in generators]
    return tuple(dict.fromkeys(named))


def _named(role: str, name: str, model: str | None) -> str:
    return f"{role} {name}{f' ({Path(model).name or model})' if model else ''}"


def _result(store: Path, index: NamedIndex, used_by: tuple[str, ...]) -> IndexResult:
    manifests = {role: read_manifest(store, artifact) for role, artifact in index.artifacts.items()}
    records = [
        record for manifest in manifests.values() for record in [manifest.preparation, *manifest.shards] if record
    ]
    return IndexResult(
        name=index.name,
        settings=_settings(index.config),
        passages=_rows(manifests, "passages"),
        sentences=_rows(manifests, "sentences"),
        tokens=sum(record.cost.tokens for record in records),
        wall_seconds=sum(record.cost.wall_seconds for record in records),
        cpu_seconds=sum(record.cost.cpu_seconds for record in records),
        usd=sum(record.cost.usd for record in records),
        peak_memory_bytes=max(record.cost.peak_memory_bytes for record in records),
        disk_bytes=sum(file.bytes for manifest in manifests.values() for file in manifest.files()),
        copied=sum(record.notes.get("reused", 0) for record in manifests["vectors"].shards),
        used_by=used_by,
    )


def _rows(manifests: dict[str, Manifest], table: str) -> int:
    return manifests[table].rows[table] if table in manifests else 0


def _settings(config: dict[str, Any]) -> str:
    settings = [f"{key}={_text(config['encode'][key])}" for key in SHOWN]
    return ", ".join([f"splitter={config['split']['splitter']}", *settings, f"type={config['index']['type']}"])


def _text(value: Any) -> str:
    return " and ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
