"""Paths in settings."""

from pathlib import Path


def absolute_if_directory(name: str) -> str:
    """A directory's absolute path, for a worker may have another working directory; any other name as it is."""
    path = Path(name).expanduser()
    return str(path.absolute()) if path.is_dir() else name


def absolute(path: Path) -> Path:
    """The path from the root, for a worker may have another working directory."""
    return path.expanduser().absolute()
