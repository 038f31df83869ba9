"""FAISS files of a store of somebody else's: FAISS, which is C++, meets them in another process first."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import faiss
import numpy as np
import pytest

from tests.support.evaluating import copied
from tests.support.mutations import mutated
from tests.support.shared import indexed
from vitalfew.configs.schema import IndexConfig, IndexType
from vitalfew.storage import files
from vitalfew.storage.indexes import faiss_shards, faiss_trial
from vitalfew.storage.indexes.faiss_shards import FaissShard
from vitalfew.storage.indexes.types import FaissRecipe
from vitalfew.storage.manifests import read_manifest, write_manifest
from vitalfew.tasks.registry import make

ROOT = Path(__file__).parents[3]
TYPES = get_args(IndexType)
WIDTH, COUNT = 16, 200
CORPUS = "synthetic:passages=24,questions=4,seed=3"
VECTORS = np.random.default_rng(0).normal(size=(COUNT, WIDTH)).astype(np.float32)


def built(folder: Path, kind: str) -> Path:
    template = FaissRecipe(make(IndexConfig(type=kind), "index"), WIDTH, COUNT, COUNT).template(VECTORS)
    path = folder / f"{kind}.faiss"
    faiss_shards.build(path, template, np.arange(COUNT), iter([VECTORS]))
    return path


SEARCH = """
import sys
from pathlib import Path
import numpy as np
from vitalfew.storage.indexes.faiss_shards import FaissShard, search
queries = np.random.default_rng(0).normal(size=(4, int(sys.argv[1]))).astype(np.float32)
for name in sys.argv[3:]:
    print(name, flush=True)
    search([FaissShard(Path(name))], queries, 5, int(sys.argv[2]))
"""


def search_all(paths: list[Path], effort: int) -> None:
    """Search files, in a process that may die of it: not a fork of this one, whose OpenMP would wait for ever."""
    command = [sys.executable, "-c", SEARCH, str(WIDTH), str(effort), *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-100:]}{done.stderr[-500:]}"


def copies(whole: Path, count: int) -> list[Path]:
    """Write so many changed copies of a file."""
    content, folder = whole.read_bytes(), whole.parent / "copies"
    folder.mkdir()
    paths = [folder / f"{number}.faiss" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(mutated(content, number))
    return paths


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("count", [40, pytest.param(1500, marks=pytest.mark.slow)])
def test_no_file_that_passes_its_trial_ends_a_process(tmp_path: Path, kind: str, count: int) -> None:
    whole, effort = built(tmp_path, kind), 64 if kind[0] in "hi" else 0
    changed = copies(whole, count)
    faults = faiss_trial.faults([whole, *changed], WIDTH)
    assert whole not in faults
    assert len(faults) > count / 10
    assert all(fault.isprintable() for fault in faults.values())
    search_all([path for path in changed if path not in faults], effort)


def test_a_file_that_ends_the_process_is_named_and_the_others_are_tried(tmp_path: Path) -> None:
    whole = built(tmp_path, "flat")
    slow = tmp_path / "pipe"
    os.mkfifo(slow)  # FAISS would wait for ever: the alarm ends the process
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faiss_trial, "__file__", str(impatient(tmp_path)))
        faults = faiss_trial.faults([whole, slow, whole.with_name("missing"), whole], WIDTH)
    assert faults.keys() == {slow, whole.with_name("missing")}
    assert faults[slow] == "opening it takes too long"


def impatient(folder: Path) -> Path:
    """The same program, in which a file may take a second."""
    source = Path(faiss_trial.__file__).read_text(encoding="utf-8")
    program = folder / "trial.py"
    program.write_text(source.replace("SECONDS, BYTES_PER_SECOND = 20", "SECONDS, BYTES_PER_SECOND = 1"))
    return program


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda index: index.index, "not an IndexIDMap"),
        (lambda index: faiss.IndexIDMap(faiss.IndexFlatIP(WIDTH + 1)), "not an inner-product index of 16 numbers"),
        (lambda index: faiss.IndexIDMap(faiss.IndexFlatL2(WIDTH)), "not an inner-product index"),
        (lambda index: (index.id_map.push_back(7), index)[1], "id_map size (201) does not match ntotal (200)"),
    ],
)
def test_an_index_that_is_of_no_use_is_named(tmp_path: Path, change: object, said: str) -> None:
    index = faiss.read_index(str(built(tmp_path, "flat")))
    path = tmp_path / "changed.faiss"
    changed = change(index)  # type: ignore[operator]
    faiss.write_index(changed, str(path))
    assert said in faiss_trial.faults([path], WIDTH)[path]


def test_what_this_machine_wrote_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_trial, "faults", lambda *given: pytest.fail("it was tried"))
    path = built(tmp_path, "sq8")
    faiss_shards.vouch(files.checksum(path))
    faiss_shards.confirm([FaissShard(path, files.checksum(path))], WIDTH)
    assert FaissShard(path, files.checksum(path)).index.ntotal == COUNT


def test_a_store_with_a_hostile_index_is_refused_by_search(tmp_path: Path) -> None:
    """Its checksums fit: whoever made it made them as well."""
    store = copied(indexed(CORPUS, bm25={"enabled": True}, index={"type": "sq8"}), tmp_path / "theirs")
    [path] = store.glob("faiss/*/00000.sentence.faiss")
    whole = path.read_bytes()
    path.unlink()  # a hard link: other tests read the file
    place = whole.index(b"IxSQ")  # the number of vectors stands behind the dimension
    path.write_bytes(whole[: place + 8] + (1 << 40).to_bytes(8, "little") + whole[place + 16 :])
    manifest, now = read_manifest(path.parent), path.stat()
    forged = {"checksum": files.checksum(path), "bytes": now.st_size, "modified_ns": now.st_mtime_ns}
    shards = [
        replace(
            shard, files=[replace(file, **forged) if file.path.endswith(path.name) else file for file in shard.files]
        )
        for shard in manifest.shards
    ]
    write_manifest(path.parent, replace(manifest, shards=shards))
    command = [sys.executable, "-m", "vitalfew.flows.cli", "search", "Who?", "--index", "test", "--store", str(store)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done
    assert f"{path} is damaged" in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr
