"""Records: small JSON files, written whole and read back with a check of what they hold."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from storage.files.checksums import Damaged
from storage.files.local import read_text
from storage.files.writing import write_text

Record = TypeVar("Record")


class DamagedRecord(Damaged):
    """A record of the store (JSON) is not as it was written: the message names the file and what is wrong with it."""


def write_json(path: Path, value: Any) -> None:
    """Raises NotWritten."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")


def read_json(path: Path) -> Any:
    """What `write_json` wrote. Raises FileNotFoundError, and DamagedRecord where the file is no JSON (any more)."""
    try:
        return json.loads(read_text(path))
    except ValueError as error:  # not UTF-8, or not JSON
        raise DamagedRecord(f"{path} is damaged: {error}") from error


def read_record(path: Path, kind: Callable[[dict[str, Any]], Record]) -> Record:
    """A record of the store. Raises FileNotFoundError, and DamagedRecord where it is not as it was written."""
    value = read_json(path)
    try:
        return kind(value)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise DamagedRecord(f"{path} is damaged: {type(error).__name__} {error}") from error
