"""Arrays, tensors and tables that damage or malice has changed: read as they are, or refused by name, in bounds."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests.support.mutations import Read, failures
from vitalfew.storage import files
from vitalfew.storage.files import Damaged

ROWS = pa.table({"id": np.arange(300), "text": [f"The mill was built in {year}." for year in range(300)]})
KINDS: dict[str, tuple[Callable[[Path], None], Read]] = {
    "npy": (lambda path: files.write_array(path, np.arange(600, dtype=np.float32).reshape(100, 6)), files.read_array),
    "mapped.npy": (lambda path: files.write_array(path, np.arange(600, dtype=np.int64)), files.map_array),
    "npz": (lambda path: files.write_arrays(path, {"a": np.arange(90), "b": np.ones((5, 4))}), files.read_arrays),
    "safetensors": (
        lambda path: files.write_tensors(path, {"a": torch.ones(5, 4), "b": torch.arange(9)}, {"note": 1}),
        files.read_tensors,
    ),
    "notes.safetensors": (
        lambda path: files.write_tensors(path, {"a": torch.ones(5, 4)}, {"note": [1, "two"]}),
        files.read_notes,
    ),
    "parquet": (lambda path: files.write_table(path, ROWS), files.read_table),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [200, pytest.param(3_000, marks=pytest.mark.slow)])
def test_a_changed_file_is_read_or_refused_by_name(tmp_path: Path, kind: str, count: int) -> None:
    write, read = KINDS[kind]
    whole = tmp_path / f"whole.{kind}"
    write(whole)
    read(whole)
    assert failures(whole, read, (Damaged,), count) == []
