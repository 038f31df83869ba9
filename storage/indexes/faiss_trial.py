"""Try FAISS files in a separate process, once per machine, before this one opens them.

FAISS reads a file as it is: one that was made to harm ends the process, or takes all its memory. A store may come from
somebody else, with checksums that fit. So a file that this machine did not write is first opened and searched by a
process that does nothing else. It ends at a file that FAISS cannot bear, and that file is damaged.

`python -I faiss_trial.py WIDTH KIND FILE…` is that process: it prints a line for every file, empty if the file is fit.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import faiss
import numpy as np

Kind = Literal["shard", "template"]

SECONDS, BYTES_PER_SECOND = 20, 10 << 20
"""How long a file may take: so long, and longer in proportion to its size."""
QUERIES = 4


def faults(paths: Sequence[Path], width: int, kind: Kind = "shard") -> dict[Path, str]:
    """Return the files that cannot be searched for vectors of `width` numbers, and why. A template is an index without
    vectors. Raises RuntimeError if no process can be started."""
    found: dict[Path, str] = {}
    left = [*paths]
    while left:
        command = [sys.executable, "-I", __file__, str(width), kind, *map(str, left)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        said = done.stdout.split("\n")[:-1]
        found |= {path: fault for path, fault in zip(left, said, strict=False) if fault}
        if len(said) < len(left) and done.returncode >= 0:
            raise RuntimeError(f"FAISS files cannot be tried: {done.stderr.strip()[-300:]}")
        for path in left[len(said) : len(said) + 1]:
            slow = -done.returncode == signal.SIGALRM
            found[path] = "opening it takes too long" if slow else f"FAISS ends with signal {-done.returncode} on it"
        left = left[len(said) + 1 :]
    return found


def _fault(path: Path, width: int, kind: str) -> str:
    try:
        size = path.stat().st_size
        signal.alarm(SECONDS + size // BYTES_PER_SECOND)
        # A file that announces more numbers than it has bytes is refused, before any memory is taken for them.
        faiss.set_deserialization_vector_byte_limit(max(1 << 20, size))
        index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if kind == "shard" else 0)
        if kind == "shard" and (misfit := _misfit_of_ids(index)):
            return misfit
        inner = faiss.downcast_index(index.index) if kind == "shard" else index
        return _misfit(inner, width) or _search(inner)
    except Exception as error:  # FAISS raises RuntimeError, its wrappers raise anything
        return " ".join(str(error).rpartition("Error: ")[2].split())[:300] or type(error).__name__


def _misfit_of_ids(index: Any) -> str:
    if not isinstance(index, faiss.IndexIDMap):
        return f"it is a FAISS {type(index).__name__}, not an IndexIDMap"
    if not index.index.ntotal == index.ntotal == index.id_map.size():
        return f"it has {index.id_map.size()} ids for {index.index.ntotal} vectors"
    return ""


def _misfit(index: Any, width: int) -> str:
    """Name a misfit in an index, as far as a search would not see it."""
    if (index.d, index.metric_type) != (width, faiss.METRIC_INNER_PRODUCT) or not index.is_trained:
        return f"it is not an inner-product index of {width} numbers a vector"
    if isinstance(index, faiss.IndexIVF):
        return _misfit_of_lists(index)
    if isinstance(index, faiss.IndexHNSW):
        return _misfit_of_graph(index)
    return ""


def _misfit_of_lists(index: Any) -> str:
    lists = index.invlists
    if not index.nlist == lists.nlist == index.quantizer.ntotal:
        return f"it has {index.quantizer.ntotal} centres for {lists.nlist} lists"
    if (index.quantizer.d, lists.code_size) != (index.d, index.code_size):
        return "its lists have vectors of another size"
    sizes = [lists.list_size(number) for number in range(lists.nlist)]
    if sum(sizes) != index.ntotal:
        return f"its lists have {sum(sizes)} of {index.ntotal} vectors"
    for number in np.flatnonzero(sizes).tolist():
        rows = faiss.rev_swig_ptr(lists.get_ids(number), sizes[number])
        if rows.min() < 0 or rows.max() >= index.ntotal:
            return f"its list {number} names a vector that it does not have"
    return ""


def _misfit_of_graph(index: Any) -> str:
    graph, count = index.hnsw, index.ntotal
    if index.storage.ntotal != count or index.storage.d != index.d:
        return "its graph has other vectors"
    levels, offsets = (faiss.vector_to_array(part).astype(np.int64) for part in (graph.levels, graph.offsets))
    per_level = faiss.vector_to_array(graph.cum_nneighbor_per_level).astype(np.int64)
    links = faiss.vector_to_array(graph.neighbors)
    if len(levels) != count or len(offsets) != count + 1 or not len(per_level) or np.any(np.diff(per_level) < 0):
        return "its graph does not have every vector"
    if count and (levels.min() < 1 or levels.max() >= len(per_level)):
        return "its graph has too many levels"
    if offsets[0] or offsets[-1] != len(links) or np.any(np.diff(offsets) != per_level[levels]):
        return "its graph has links of no vector"
    if len(links) and (links.min() < -1 or links.max() >= count):
        return "its graph names a vector that it does not have"
    top = -1 <= graph.entry_point < count and graph.max_level < len(per_level)
    if not top or (count and (graph.entry_point < 0 or levels[graph.entry_point] <= graph.max_level)):
        return "its graph begins nowhere"
    return ""


def _search(index: Any) -> str:
    """Search all of it, so that everything which a search may touch is touched."""
    if isinstance(index, faiss.IndexIVF):
        index.nprobe = index.nlist
    if isinstance(index, faiss.IndexHNSW):
        index.hnsw.efSearch = 512
    queries = np.random.default_rng(0).normal(size=(QUERIES, index.d)).astype(np.float32)
    _, rows = index.search(queries, 16)
    return "it answers with a vector that it does not have" if rows.max() >= index.ntotal else ""


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for FAISS's messages
    faiss.omp_set_num_threads(1)
    width, kind, *names = sys.argv[1:]
    for name in names:
        print(_fault(Path(name), int(width), kind), file=answers, flush=True)


if __name__ == "__main__":
    main()
