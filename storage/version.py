"""The version of a store, which says what its files look like: this code reads and writes one version alone.

`version.json` at the store's root holds it, written before the first artifact. A store with artifacts that has another
version, or none, is an error; nothing in it is read further, and nothing is written.
"""

from pathlib import Path

from vitalfew.storage import files

VERSION = 3
"""Raise it when code that reads a store could misread, or not find, what earlier code wrote."""
FILE = "version.json"

_checked: set[Path] = set()
"""Stores in which this process has found its version."""


class OtherVersion(ValueError):
    """A store of another version: the message names it, both versions and the remedy."""


def check(store: Path) -> None:
    """Raises OtherVersion, and DamagedRecord where `version.json` is not as it was written. A store without artifacts
    may have no version yet."""
    place = files.absolute(store)
    if place not in _checked and _has_version(store):
        _checked.add(place)


def mark(store: Path) -> None:
    """Write the version into a store that has neither one nor artifacts. Raises as `check` does, and NotWritten."""
    if not _has_version(store):
        files.write_json_once(store / FILE, {"version": VERSION})


def _has_version(store: Path) -> bool:
    """Return false for a store that has neither a version nor artifacts. Raises as `check` does."""
    try:
        found = files.read_record(store / FILE, lambda value: int(value["version"]))
    except (FileNotFoundError, NotADirectoryError):
        found = None
    if found == VERSION:
        return True
    if found is None and not any(files.find(store, f"*/*/{name}") for name in ("manifest.json", "stage.json")):
        return False
    has = "has no version (vitalfew 0.2 wrote none)," if found is None else f"has version {found},"
    raise OtherVersion(
        f"the store at {store} {has} and this vitalfew reads version {VERSION}: nothing in it was changed. Index again "
        "into a new store: vitalfew index … --store NEW"
    )
