"""`FORMAT:PATH?option=value&option=value`: how a user names a dataset; FORMAT alone, if it reads no path."""

import os
from pathlib import Path
from urllib.parse import unquote

from pydantic import ValidationError

from vitalfew.configs.loading import explained
from vitalfew.tasks.datasets.base import Dataset, InputError
from vitalfew.tasks.registry import METHODS, UnknownName, resolve


def parse_dataset(specification: str) -> tuple[str, Dataset]:
    """Return the format's name and the dataset, ready to stream. Raises InputError or UnknownName."""
    if specification != specification.encode(errors="replace").decode():
        escaped = specification.encode(errors="backslashreplace").decode()
        raise InputError(f"{escaped}: the path is not UTF-8 and cannot be recorded. Rename the file or folder")
    name, colon, rest = specification.partition(":")
    if not colon and not (name in METHODS["dataset"] and not resolve("dataset", name).reads_path):
        raise InputError(
            f"{specification!r} is not FORMAT:PATH; write for example {likely(specification)!r}. "
            "For all formats: vitalfew datasets"
        )
    if name not in METHODS["dataset"]:
        raise UnknownName("dataset format", name, sorted(METHODS["dataset"]))
    method = resolve("dataset", name)
    path, options = _divided(rest, method.reads_path)
    if method.reads_path and not path:
        raise InputError(f"{specification!r} names no file; write for example {method.example!r}")
    try:
        validated = method.Options.model_validate(_pairs(options, specification))
    except ValidationError as error:
        faults = "; ".join(explained(error, method.Options))
        raise InputError(f"{specification!r}: {faults}") from None
    if not path:
        return name, method(None, validated)
    source = Path(path).expanduser()
    is_name = method.takes_name and not os.path.exists(source)
    return name, method(source if is_name else source.absolute(), validated)


def likely(path: str) -> str:
    """FORMAT:PATH of a path without a format, which may not be there."""
    there = os.path.expanduser(path)
    if os.path.isdir(there):
        return f"beir:{path}" if os.path.exists(os.path.join(there, "corpus.jsonl")) else f"folder:{path}"
    ending = os.path.splitext(path)[1].lower().lstrip(".")
    known = {"jsonl": "jsonl", "csv": "csv", "tsv": "csv", "parquet": "parquet", "json": "squad"}
    if ending in known:
        return f"{known[ending]}:{path}"
    return f"folder:{os.path.dirname(path) or '.'}" if ending else f"folder:{path}"


def _divided(rest: str, reads_path: bool) -> tuple[str, str]:
    """Path and options."""
    if not reads_path:
        return "", rest.lstrip("?").replace(",", "&")
    if "?" not in rest or os.path.exists(rest):  # a file's own name may hold a question mark
        return rest, ""
    path, _, options = rest.rpartition("?")
    return path, options


def _pairs(options: str, specification: str) -> dict[str, str]:
    values = {}
    for option in filter(None, options.split("&")):
        key, equals, value = option.partition("=")
        if not equals:
            raise InputError(f"{specification!r}: option {option!r} has no value; write {option}=VALUE")
        # Unquoted, so that a value can hold "&" as %26 and "?" as %3F, as in a URL.
        values[key.strip()] = unquote(value)
    return values
