"""The files of corpora: what one would change, and settings that are added to one, such as a gate or a schedule."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vitalfew.configs.loading import ConfigError, flat, read_yaml
from vitalfew.configs.paths import beside
from vitalfew.flows.pipelines.named import CORPORA, corpora, find_corpus, parse_corpus
from vitalfew.storage import files
from vitalfew.storage.runs import IndexNotFound, find_index
from vitalfew.tasks.registry import UnknownName


@dataclass(frozen=True)
class CorpusFile:
    """A corpus's file with settings that were added, or would be. `file`: its path; `before`: its text until then, or
    that of the file that came with the product; `added`: the lines that come after it, with `settings`; `power`: of
    a gate among these, how many questions it asks and whether they can show its margins."""

    file: Path
    before: str
    added: str
    settings: Mapping[str, Any]
    power: str = ""

    @property
    def after(self) -> str:
        """The text of the file with the added lines."""
        return "\n".join(filter(None, [self.before.rstrip("\n"), self.added]))


def extend(store: Path, name: str, settings: Mapping[str, Any], own: Path | None, write: bool) -> CorpusFile:
    """See `Store.extend_corpus`."""
    known = corpora(store, own)
    if name not in known:
        raise UnknownName("corpus", name, sorted(known))
    file = known[name]
    target = ((own or beside(store, "corpora")) / file.name if file.parent == CORPORA else file).absolute()
    if not write:
        return _extended(store, name, file, target, settings)
    try:
        with _turn(target):  # another writer's lines are in the file that is read here
            file = corpora(store, own)[name]
            changed = _extended(store, name, file, target, settings)
            files.write_text(target, changed.after)
    except OSError as error:
        added = _as_yaml(settings)
        raise OSError(f"{error}. Add these lines to the file {target} yourself:\n{added}") from None
    return changed


@contextmanager
def _turn(file: Path) -> Iterator[None]:
    """Keep other processes and threads from changing a corpus's file. Raises OSError where its folder refuses files."""
    lock = file.with_name(f".{file.name}.turn")
    with files.locked(lock):
        try:
            yield
        finally:
            files.remove(lock)


def _extended(store: Path, name: str, file: Path, target: Path, settings: Mapping[str, Any]) -> CorpusFile:
    """The file with the settings at its end. Raises ConfigError where it would not be a corpus, its schedule none, or
    its gate one that never passes."""
    added = _as_yaml(settings)
    if there := [key for key in read_yaml(file) if key in settings]:
        raise ConfigError(f"{file} has {there[0]} already (line {_line(file, there[0])}); change it there")
    changed = CorpusFile(target, file.read_text(encoding="utf-8"), added, settings)
    try:
        corpus = parse_corpus(name, store, changed.after)
        if corpus.gate and "gate" in settings:
            from vitalfew.flows.pipelines.gate import check_power

            return replace(changed, power=check_power(corpus, corpus.gate).said)
    except ValueError as error:
        raise ConfigError(f"{target}: with these lines at its end, {error}\n{added}") from None
    return changed


def _as_yaml(settings: Mapping[str, Any]) -> str:
    import yaml

    lines = []
    for key, value in settings.items():
        inline = None if isinstance(value, Mapping | list) else False
        lines.append(yaml.safe_dump({key: value}, default_flow_style=inline, sort_keys=False, allow_unicode=True))
    return "".join(lines)


def _line(file: Path, key: str) -> int:
    """The number of the line in which a file has a setting, 1 where it is not at the beginning of one."""
    lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
    return next((number for number, line in lines if line.lstrip("'\"").startswith(key)), 1)


def changes(store: Path, name: str, own: Path | None) -> list[tuple[str, str, str]]:
    """Settings that a corpus has otherwise than the index that it would replace: key, of the index, of the corpus.

    Raises UnknownName, ConfigError."""
    corpus = find_corpus(name, store, own)
    try:
        there = find_index(store, name).config
    except IndexNotFound:
        return []
    now, wanted = dict(flat(there)), dict(flat(corpus.model_dump(mode="json")))
    both = [key for key in _COMPARED if None not in (now.get(key), wanted.get(key))]
    return [(key, _in_words(now[key]), _in_words(wanted[key])) for key in both if now[key] != wanted[key]]


_COMPARED = ("datasets", "split.splitter", "encode.encoder", "encode.context", "index.type", "bm25.enabled")
"""The settings of a corpus that decide what searches find. One that is None is decided later."""


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(value) if isinstance(value, list) else str(value)
