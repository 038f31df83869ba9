"""Files of finished artifacts whose rows another one takes over. These get a new checksum there, so the old one is
compared first: DuckDB, for one, does not see a flipped bit."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from vitalfew.storage import files
from vitalfew.storage.manifests import File

logger = logging.getLogger("vitalfew")

_damaged: set[Path] = set()
"""Files that this process has warned about."""


def write_bases(path: Path, bases: Iterable[File]) -> None:
    """Note the files that rows are taken over from. Raises NotWritten."""
    files.write_json(path, [asdict(file) for file in bases])


def read_bases(path: Path) -> list[File]:
    """Raises FileNotFoundError, DamagedRecord."""
    return [File(**file) for file in files.read_json(path)]


def whole(store: Path, bases: Sequence[File]) -> Iterator[Path]:
    """Where these files lie on this machine, without those that are gone and those that are damaged, of which a warning
    tells."""
    for file in bases:
        try:
            yield file.checked(store)
        except FileNotFoundError:
            continue
        except files.Damaged as error:
            if (path := store / file.path) not in _damaged:
                logger.warning("nothing is taken over from a damaged file: %s", error)
            _damaged.add(path)
