"""What a run does with the records of its artifacts grows with the shards and no faster: reads are counted while the
number of shards doubles."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.indexing import parameters
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.files import checksums, records, tables

SIZES = (2, 4, 8)
PER_SHARD = 8
EVALUATION = {
    "index": "test",
    "questions": {"batch": 5},
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "methods": {"naive": {"retrieve": {"retriever": "passage"}}},
}


@contextmanager
def counted(store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts what is read of the store: manifests and other JSON by kind, tables, and how often files are looked at."""
    counts: Counter[str] = Counter()

    def count(owner: object, name: str, kind: str) -> None:
        call = getattr(owner, name)

        def counting(*arguments, **named):
            path = Path(str(arguments[0]))
            if path.is_relative_to(store):
                marker = "markers" if path.parent.name == "done" else path.name
                counts[marker if kind == "json" else kind] += 1
            return call(*arguments, **named)

        patch.setattr(owner, name, counting)

    with monkeypatch.context() as patch:
        count(records, "_opened", "json")
        count(tables.pq, "read_table", "tables")
        count(Path, "stat", "looks")
        yield counts


def reads(store: Path, shards: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Counter[str]]:
    """What a new index of so many shards reads, the same again when all is there, and evaluations of it."""
    corpus = f"synthetic:passages={PER_SHARD * shards},questions=10,seed=3"
    steps = {
        "index": lambda: graph(parameters(store, corpus, load={"shard_passages": PER_SHARD})).run(run_serially),
        "evaluate": lambda: graph(evaluation("trial", EVALUATION, {"store": store, "runner": "serial"})).run(
            run_serially
        ),
    }
    seen = {}
    for turn in ("first", "again"):
        for name, step in steps.items():
            with counted(store, monkeypatch) as counts:
                outcome = step()
            seen[f"{name} {turn}"] = counts
    assert len(outcome.manifests) > 4
    passages = next(store.glob("passages/*")).name
    assert len(Artifact(store, "passages", passages).completed().shards) == shards
    return seen


def test_what_is_read_of_records_follows_the_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A checksum is remembered at once, not after a second: which files are read twice depends on no clock.
    monkeypatch.setattr(checksums, "SETTLED_NS", -1)
    reads(tmp_path / "before", SIZES[0], monkeypatch)  # the first run of a process looks at some files once more
    small, middle, large = (reads(tmp_path / str(size), size, monkeypatch) for size in SIZES)
    for step in small:
        # A manifest is read once per artifact, however many shards there are; a marker once by the run that wrote it.
        assert small[step]["manifest.json"] == middle[step]["manifest.json"] == large[step]["manifest.json"]
        for kind in ("markers", "tables", "looks"):
            first, second = middle[step][kind] - small[step][kind], large[step][kind] - middle[step][kind]
            assert second <= 2 * first, f"{step}, {kind}: {[seen[step][kind] for seen in (small, middle, large)]}"
    assert large["index first"]["markers"] <= 5 * SIZES[-1]
    assert not large["index again"]["manifest.json"] + large["index again"]["markers"]
