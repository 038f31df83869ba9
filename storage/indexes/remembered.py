"""Vectors of texts that were encoded when a question asked for them: `remembered/<encoding>/<kind>/` of a store.

A file has the vectors of some texts, sorted by the texts' keys (tasks/encoders/reuse.py), is named after its content
and never changes. Every process of every machine adds files of its own, so nothing waits and a kill loses nothing. Once
there are many small files, they become one. The folder can be removed at any time: what is missing is encoded again.
`vitalfew store gc` removes the vectors of an encoding that no index of the store has any more.
"""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalfew.storage import files
from vitalfew.storage.artifacts import fingerprint
from vitalfew.storage.costs import Reused
from vitalfew.storage.files import Damaged
from vitalfew.storage.indexes import Vectors

FOLDER = "remembered"
SMALL, MANY = 32 << 20, 16
"""Bytes below which a file is small, and how many small files become one. So what is in memory is bounded."""
Keys = NDArray[np.int64]


def encoding_of(description: Mapping[str, Any]) -> str:
    """A fingerprint of all that a vector depends on besides its text, from the description of its artifact. Context
    mode `late` encodes a sentence in its passage.

    A new description and a stored one (whose tuples became lists) have the same fingerprint."""
    config = description["config"]
    late = config["context"] == "late" and "sentence" in config["units"]
    method = {name: value for name, value in description["method"].items() if name != "titled"}
    return fingerprint(version=description["version"], method=method, late=late)


class _File(NamedTuple):
    """Keys int64 (n,), ascending; vectors float32 (n, d), mapped; and what one vector took to compute."""

    keys: Keys
    vectors: Vectors
    took: Reused


class Remembered:
    """The vectors of one kind by one encoding. Several threads and processes may use a folder."""

    def __init__(self, store: Path, encoding: str, kind: str, dimension: int) -> None:
        self.folder, self.dimension = store / FOLDER / encoding / kind, dimension
        self._files: dict[Path, _File | None] = {}

    def find(self, keys: Keys, counted: NDArray[np.bool_] | None = None) -> tuple[Vectors, NDArray[np.bool_], Reused]:
        """The vectors, float32 (n, d), of the keys that are known, bool (n,); zero for others. And what those that are
        `counted`, bool (n,), had taken; default: all."""
        found, vectors, took = np.zeros(len(keys), bool), np.zeros((len(keys), self.dimension), np.float32), Reused()
        for listed in (False, True):  # a folder is listed only where a key is missing
            if found.all():
                break
            for file in self._open() if listed else [*self._files.values()]:
                if file is not None:
                    took += _copy(file, keys, found, vectors, counted)
        return vectors, found, took

    def add(self, keys: Keys, vectors: Vectors, took: Reused) -> None:
        """Keep vectors. `took`: what all of them took. Raises NotWritten."""
        if len(keys):
            self._write(keys, vectors, took * (1 / len(keys)))
            self._merge()

    def _open(self) -> list[_File | None]:
        """All files, those added by others since the last time included."""
        listed = files.find(self.folder, "*.arrow")
        self._files = {path: self._files[path] if path in self._files else _read(path) for path in listed}
        return [*self._files.values()]

    def _write(self, keys: Keys, vectors: Vectors, took: Reused) -> Path:
        keys, first = np.unique(keys, return_index=True)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors[first].reshape(-1)), self.dimension)
        notes = {name: repr(value) for name, value in vars(took).items()}
        content = files.arrow_bytes(pa.table({"key": keys, "vector": column}).replace_schema_metadata(notes))
        path = self.folder / f"{blake2b(content, digest_size=16).hexdigest()}.arrow"
        files.write_bytes(path, content)
        self._files[path] = _read(path)  # mapped, so that memory does not grow
        return path

    def _merge(self) -> None:
        """Make one file of the small ones, where there are many. A kill in between leaves some vectors twice."""
        small = [path for path, file in self._files.items() if file is None or file.vectors.nbytes < SMALL]
        if len(small) < MANY:
            return
        with files.locked(self.folder / "lock", wait=False) as held:
            own = {path: file for path in small if held and (file := _read(path))}
            if not own:
                return
            keys, vectors = (
                np.concatenate([getattr(file, name) for file in own.values()]) for name in ("keys", "vectors")
            )
            took = sum((file.took * len(file.keys) for file in own.values()), Reused()) * (1 / len(keys))
            kept = self._write(keys, vectors, took)
            for path in {*small} - {kept}:
                self._files.pop(path, None)
                with suppress(FileNotFoundError):  # another machine's process was first
                    files.remove(path)


def _read(path: Path) -> _File | None:
    """None for a file that became part of another, or whose bytes have changed: its vectors count as missing."""
    with suppress(FileNotFoundError, Damaged):
        table = files.read_arrow(files.checked(path, path.stem))
        keys, column = table["key"].chunk(0).to_numpy(), table["vector"].chunk(0)
        vectors = column.flatten().to_numpy().reshape(len(keys), column.type.list_size)
        notes = table.schema.metadata
        return _File(keys, vectors, Reused(*(float(notes[name.encode()]) for name in vars(Reused()))))
    return None


def _copy(
    file: _File, keys: Keys, found: NDArray[np.bool_], vectors: Vectors, counted: NDArray[np.bool_] | None
) -> Reused:
    """Fill in the vectors of keys that are not found yet; what those that are counted had taken."""
    missing = np.flatnonzero(~found)
    places = np.minimum(np.searchsorted(file.keys, keys[missing]), len(file.keys) - 1)
    here = file.keys[places] == keys[missing]
    vectors[missing[here]], found[missing[here]] = file.vectors[places[here]], True
    return file.took * float(here.sum() if counted is None else counted[missing[here]].sum())
