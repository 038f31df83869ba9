"""Places in a store, on one of two media: the operation of a medium as a function of a place."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from vitalfew.configs.paths import BucketPath
from vitalfew.storage.files.directory import DIRECTORY, Directory

Given = ParamSpec("Given")
Result = TypeVar("Result")


def is_in_bucket(path: Path) -> bool:
    return isinstance(path, BucketPath)


def medium(path: Path) -> Directory:
    """The medium that a place is on. A store on this machine imports no client of buckets."""
    if is_in_bucket(path):
        from vitalfew.storage.files.objects.bucket import BUCKET

        return BUCKET
    return DIRECTORY


def reached(
    operation: Callable[Concatenate[Directory, Path, Given], Result],
) -> Callable[Concatenate[Path, Given], Result]:
    """The operation as a function of a place, on whichever medium that is."""

    @wraps(operation)
    def by_place(path: Path, *given: Given.args, **named: Given.kwargs) -> Result:
        return getattr(medium(path), operation.__name__)(path, *given, **named)

    return by_place
