"""The secrets that methods read: keys of servers, by their environment variables."""

from vitalfew.configs.section import Section
from vitalfew.tasks.registry import resolve, with_options
from vitalfew.tasks.stage import Stage


def asks_servers(stage: Stage) -> bool:
    """Return whether a stage's method, or one that it is made of, asks a server that may need a key."""
    return isinstance(stage.config, Section) and bool(secrets(stage.config, stage.section))


def secrets(section: Section, path: str) -> dict[str, str]:
    """Environment variables with secrets of a section's method, its engine or the methods that it is made of, and the
    names of the Prefect blocks that may hold them instead. Raises UnknownName, ConfigError."""
    options = with_options(section, path)
    engine = getattr(options, "engine", None)
    readers = [resolve(section.kind, section.methods[0]), *([resolve("engine", engine)] if engine else [])]
    known = [reader.secrets() for reader in readers if hasattr(reader, "secrets")]
    known += [secrets(part, f"{path}.{name}") for name, part in options if isinstance(part, Section)]
    return {variable: block for blocks in known for variable, block in blocks.items()}
