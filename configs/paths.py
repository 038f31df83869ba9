"""Paths in settings, and where a store is: a directory of this machine or a prefix of a bucket."""

import os
import re
from pathlib import Path, PosixPath
from typing import Any

SCHEMES = {"s3": "Amazon S3 and compatible stores", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(.*)", re.DOTALL)
"""How s3://bucket begins, as a text or as a path, which has one slash fewer."""
_PART = re.compile(r"[^\s?#*@\\]+")


class BucketPath(PosixPath):
    """A place in an object store: `/`, `.name`, `.parent` and `.relative_to` work as a path's, its text is the URL.

    Using it as a file of this machine raises TypeError: only `vitalfew.storage.files` reads and writes a place.
    """

    def __str__(self) -> str:
        first, *rest = self.parts or (".",)
        return f"{first}//{'/'.join(rest)}" if first.rstrip(":") in SCHEMES and first[-1] == ":" else super().__str__()

    def __fspath__(self) -> str:
        if self.parts and self.parts[0].endswith(":"):
            raise TypeError(
                f"{self} is in a bucket, not on this machine: read and write it with vitalfew.storage.files"
            )
        return super().__fspath__()

    def absolute(self) -> "BucketPath":
        return self


def absolute_if_directory(name: str) -> str:
    """A directory's absolute path, for a worker may have another working directory; any other name as it is."""
    path = Path(name).expanduser()
    return str(path.absolute()) if path.is_dir() else name


def absolute(path: Path) -> Path:
    """The path from the root, for a worker may have another working directory."""
    return path.expanduser().absolute()


def store_place(given: str | Path) -> Path:
    """Where a store is: a directory, or `s3://bucket/prefix` as a BucketPath. Raises ValueError."""
    place = store_setting(given)
    return place if isinstance(place, Path) else Path(place)


def store_setting(given: Any) -> Any:
    """A store's place as it was given, the address of a bucket as a BucketPath. Raises ValueError for an address of
    another kind, or one that cannot be a store's, and where something else is in a directory's place."""
    if not isinstance(given, str | Path):
        return given
    if not (address := _ADDRESS.match(str(given))):
        _check_folder(Path(given))
        return given
    scheme, rest = address[1].lower(), address[2].strip("/")
    if scheme not in SCHEMES:
        raise ValueError(
            f"{address[1]}://…: a store must be a directory, or a prefix of a bucket: s3://BUCKET/PREFIX, gs:// or "
            "az://. If this is the name of a directory, put ./ before it"
        )
    if "@" in rest.partition("/")[0] or "?" in rest:
        raise ValueError(f"{scheme}://…: the address must not contain credentials; set them in the environment")
    parts = rest.split("/")
    if not rest or not all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        raise ValueError(f"{scheme}://{rest}: write {scheme}://BUCKET/PREFIX, without spaces and without ?#*@\\")
    return BucketPath(f"{scheme}:", *parts)


def _check_folder(path: Path) -> None:
    """Raises ValueError where neither a directory is nor one can be made."""
    for place in (path, *path.parents):
        if os.path.lexists(place):
            if not place.is_dir():
                what = f"a link to {os.readlink(place)}, which is not there" if place.is_symlink() else "a file"
                raise ValueError(f"{path} cannot be a store: {place} is {what}. Name another directory")
            return


def beside(store: Path, name: str) -> Path:
    """The user's folder of that name (`experiments`, `corpora`): beside the store if that is a directory, else in the
    working directory."""
    return Path(name).absolute() if isinstance(store, BucketPath) else store.absolute().parent / name
