"""The secrets that methods read: keys of servers, by their environment variables."""

from vitalfew.configs.section import Section
from vitalfew.tasks.registry import resolve, with_options


def secrets(section: Section, path: str) -> dict[str, str]:
    """Environment variables with secrets of a section's method, its engine or the methods that it is made of, and the
    names of the Prefect blocks that may hold them instead. Raises UnknownName, ConfigError."""
    options = with_options(section, path)
    engine = getattr(options, "engine", None)
    readers = [resolve(section.kind, section.methods[0]), *([resolve("engine", engine)] if engine else [])]
    known = [reader.secrets() for reader in readers if hasattr(reader, "secrets")]
    known += [secrets(part, f"{path}.{name}") for name, part in options if isinstance(part, Section)]
    return {variable: block for blocks in known for variable, block in blocks.items()}
