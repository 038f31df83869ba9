"""The register of a store in a bucket: the names of its records, so that nobody has to list the bucket to find them.

One object, `register.json`, has the place of every manifest, run, named index, quote and ledger. It is changed by
compare-and-swap (If-Match), before the record itself is written: what a kill leaves is a name without a record, which
readers pass over, never a record without a name. Each change counts, so that its version says whether anything is new.
A store that was copied into the bucket by another tool gets its register from one list.
"""

import json
import random
import time
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

import obstore

from vitalfew.storage.files.medium import RECORDS, BucketError
from vitalfew.storage.files.objects.client import client, explained, fetched, key, seen

NAME = "register.json"
_TRIES = 200
_own = Lock()
"""Threads of this process take turns."""


def find(folder: Path, pattern: str) -> list[Path] | None:
    """List the places of records that match, in the order of names; one may be of a record that was never written.
    Return None for a pattern of other files, which the register does not know."""
    known = next((own for own in RECORDS if own in (pattern, f"{folder.name}/{pattern}")), None)
    if known is None:
        return None
    root = folder if known == pattern else folder.parent
    return [root / name for name in _read(root)[0]["places"] if PurePosixPath(name).match(known)]


def version(path: Path) -> str:
    """As `Medium.version`; empty where there is no register."""
    try:
        with explained(path / NAME):
            return str(obstore.head(client(path), key(path / NAME))["e_tag"])
    except FileNotFoundError:
        return ""


def note(path: Path) -> None:
    """Enter a record that is about to be written; do nothing for the path of another file."""
    _change(path, there=True)


def forget(path: Path) -> None:
    """Remove a record that was removed from the store."""
    _change(path, there=False)


def _read(root: Path) -> tuple[dict[str, Any], Any]:
    """The register, and the version that a `put` replaces."""
    place = root / NAME
    try:
        meta, content = fetched(place)
    except FileNotFoundError:
        return {"changes": 0, "places": _listed(root)}, "create"
    version = seen(meta)
    try:
        known = json.loads(content)
        return {"changes": int(known["changes"]), "places": [*filter(_is_record, known["places"])]}, version
    except (ValueError, LookupError, TypeError):  # damaged: the next change writes it anew
        return {"changes": 0, "places": _listed(root)}, version


def _is_record(name: str) -> bool:
    """Return true for the place of a record below the store."""
    place = PurePosixPath(name)
    return ".." not in place.parts and any(
        len(place.parts) == pattern.count("/") + 1 and place.match(pattern) for pattern in RECORDS
    )


def _listed(root: Path) -> list[str]:
    """The records of a store without a register."""
    prefix = key(root)
    with explained(root):
        pages = obstore.list(client(root), prefix=f"{prefix}/" if prefix else None)
        names = [entry["path"][len(prefix) :].lstrip("/") for page in pages for entry in page]
    return sorted(filter(_is_record, names))


def _change(path: Path, there: bool) -> None:
    matching = (pattern for pattern in RECORDS if PurePosixPath(*path.parts[2:]).match(pattern))
    if (pattern := next(matching, None)) is None:
        return
    root = path.parents[pattern.count("/")]
    place, name = root / NAME, str(path.relative_to(root))
    for attempt in range(_TRIES):
        with _own:
            known, replaced = _read(root)
            places = {*known["places"], name} if there else {*known["places"]} - {name}
            content = {"changes": known["changes"] + 1, "places": sorted(places)}
            try:
                with explained(place):
                    obstore.put(client(root), key(place), json.dumps(content).encode(), mode=replaced)
                return
            except FileExistsError:  # another process was first; or a put was cut off, which is done again harmlessly
                pass
        time.sleep(random.uniform(0, 0.02 * min(attempt + 1, 25)))
    raise BucketError(f"other processes keep changing {place}; run the same command again")
