"""`vitalfew export vectors`, and the command that a corpus runs after a promotion."""

import json
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

import vitalfew as vf
from tests.flows.cli.test_main import run
from tests.support.evaluating import searchable
from tests.support.fakes import HashEncoder
from tests.support.indexing import index
from vitalfew.flows.pipelines import on_promote
from vitalfew.storage.files import read_json


def matrix(path: Path) -> np.ndarray:
    column = pq.read_table(path)["vector"].combine_chunks()
    return column.flatten().to_numpy().reshape(len(column), -1)


def has_ended(pid: int) -> bool:
    """Return whether a process that was killed ends within a minute; of one that nobody collects a zombie is left."""
    for _ in range(6000):
        if not psutil.pid_exists(pid):
            return True
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        time.sleep(0.01)
    return False


def test_every_passage_and_every_sentence_has_its_row(tmp_path: Path) -> None:
    store = vf.Store(searchable(), progress=False)
    file = tmp_path / "out.parquet"
    done = run("export", "vectors", "test", "--out", file, "--store", store.place)
    assert done.exit_code == 0, done.output
    rows = pq.read_table(file)
    known = dict(store.sql("SELECT passage_id, text FROM passages").rows())
    assert dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True)) == known
    assert set(rows["generation"].to_pylist()) == {1}
    expected = dict(store.sql("SELECT id, vector FROM vectors WHERE kind = 'passage'").rows())
    assert np.array_equal(matrix(file), np.array([expected[key] for key in rows["id"].to_pylist()], np.float32))
    store.export_vectors("test", tmp_path / "core.parquet", "sentence")
    told = store.export_vectors("test", tmp_path / "fused.parquet", "sentence", alpha=0.5)
    sentences = pq.read_table(tmp_path / "fused.parquet")
    assert told["rows"] == sentences.num_rows == store.sql("SELECT count(*) FROM sentences").item()
    # A vector store that compares by inner product finds what the product finds at this alpha.
    hit = store.index("test").search(question := "Which city is old?", retriever="core_context", alpha=0.5, top_k=1)[0]
    scores = matrix(tmp_path / "fused.parquet") @ HashEncoder().encode_questions([question]).vectors[0]
    assert abs(scores.max() - hit.score) < 1e-5
    refused = run("export", "vectors", "test", "--out", file, "--alpha", "0.5", "--store", store.place)
    assert "--alpha is for --unit sentence" in refused.output + refused.stderr


def test_a_corpus_publishes_once_per_generation_and_again_after_a_failure(tmp_path: Path) -> None:
    store = tmp_path / "store"
    index(store, name="notes")
    (tmp_path / "corpora").mkdir()
    corpus = tmp_path / "corpora" / "notes.yaml"
    dataset = vf.Store(store).describe()["datasets"].item()[0]
    corpus.write_text(f"datasets: ['{dataset}']\non_promote: echo lost >&2; exit 3\n")
    failed = [run("index", "promote", "notes", "1", "--store", store).output for _ in range(2)]
    assert "exit status 3: lost" in failed[0]
    assert "failed 2 times in a row" in " ".join(failed[1].split())
    assert "on_promote of notes, generation 1, failed 2 times" in " ".join(
        run("index", "history", "notes", "--store", store).output.split()
    )
    out = tmp_path / "seen"
    corpus.write_text(f"datasets: ['{dataset}']\non_promote: echo $VITALFEW_INDEX $VITALFEW_GENERATION >> {out}\n")
    for _ in range(3):
        vf.Store(store, progress=False).promote("notes", 1)
    assert out.read_text() == "notes 1\n"
    assert read_json(store / "published" / "notes.json")["failed"] == 0


def test_what_a_corpus_runs_is_ended_with_all_that_it_started_and_shows_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(store := tmp_path / "store", name="notes")
    (corpora := tmp_path / "elsewhere").mkdir()
    dataset = vf.Store(store).describe()["datasets"].item()[0]

    def promoted(command: str) -> str:
        (corpora / "notes.yaml").write_text(json.dumps({"datasets": [dataset], "on_promote": command}))
        said = run("index", "promote", "notes", "1", "--corpora", corpora, "--store", store)
        assert said.exit_code == 0, said.output
        return " ".join(said.output.split())

    monkeypatch.setenv("QDRANT_API_KEY", "a-key-of-a-store")
    said = promoted("echo refused $QDRANT_API_KEY at postgres://me:mine@db/notes >&2; exit 1")
    assert "failed: exit status 1: refused *** at postgres://***@db/notes" in said
    assert "a-key-of-a-store" not in (store / "published" / "notes.json").read_text()
    monkeypatch.setattr(on_promote, "SECONDS", 1)
    pids = tmp_path / "pids"
    said = promoted(f"sleep 600 & echo $! $$ > {pids}; wait")
    assert "failed 2 times in a row: it was ended after 1 s" in said
    for pid in map(int, pids.read_text().split()):
        assert has_ended(pid)
    # What it leaves in the background on purpose is not waited for, and lives.
    monkeypatch.setattr(on_promote, "SECONDS", 600)
    assert "generation 1: done." in promoted(f"sleep 600 & echo $! > {pids}")
    psutil.Process(int(pids.read_text())).kill()
