"""Ids that come from content, the same in every corpus and on every machine; and the checksums of source files."""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vitalfew.storage import files

ID_RANGE = 1 << 63
"""Ids are below it: they fit a signed int64."""


def content_id(*parts: str | int) -> int:
    """A 63-bit id (fits a signed int64) of an ordered tuple of strings and integers.

    Parts are length-prefixed, so ("ab", "c") and ("a", "bc") differ.
    """
    content = b""
    for part in parts:
        raw = str(part).encode("utf-8", "surrogatepass")
        content += len(raw).to_bytes(8, "little") + raw
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little") % ID_RANGE


def passage_id(text: str) -> int:
    """The id of a passage, from its text alone: a text is one passage whatever its title."""
    return content_id(text)


def sentence_id(passage: int, start: int, end: int) -> int:
    """The id of a core sentence, from its passage's content and its character span in it."""
    return content_id(passage, start, end)


def rewritten_id(passage: int, units: Sequence[str], position: int) -> int:
    """The id of a rewritten unit, from its passage, all units of the passage, and its position among them."""
    return content_id(passage, position, *units)


def shard_of(ids: NDArray[np.int64], shards: int) -> NDArray[np.int64]:
    """The shard of every id: shards are ranges of ids, all of one width."""
    # The width of a single shard, 2**63, is no int64.
    return ids // (ID_RANGE // shards) if shards > 1 else np.zeros_like(ids)


class SourceChanged(ValueError):
    """A source was changed while it was read: the message names it."""


def file_key(path: Path) -> str:
    """A text that changes with a file's content: size, inode, date, and the date of change, which nobody can set back.

    Raises SourceChanged where the file is gone."""
    try:
        return "-".join(map(str, files.status(path)))
    except FileNotFoundError as error:
        raise SourceChanged(f"{path} was removed while it was read") from error


SMALL = 1 << 20
"""Bytes below which a file is read as fast as its remembered checksum; a folder may have 100,000 such files."""


def file_digest(path: Path) -> str:
    """Checksum of a file's content. This machine remembers that of a large one while it is the same file
    (storage/files/checksums.py). Raises SourceChanged."""
    key = file_key(path)
    digest = (files.checksum if files.status(path).size < SMALL else files.remembered_checksum)(path)
    if file_key(path) != key:
        raise SourceChanged(f"{path} was changed while it was read; run again once it is complete")
    return digest
