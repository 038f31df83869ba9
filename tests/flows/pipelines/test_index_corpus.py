"""The flow index_corpus as a whole: tables, reuse, resume, conservation of rows, damage, bad input, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.indexing import SYNTHETIC, contents, index, reused, sql, table
from tests.support.ray_nodes import wait_for
from tests.support.shared import indexed
from vitalfew.storage.artifacts import Artifact, ShardRecord
from vitalfew.storage.runs import read_runs
from vitalfew.tasks.encode import BadVectors

ROOT = Path(__file__).parents[3]


def command(store: Path, dataset: str, *options: str, encoder: str = "HashEncoder", shard: int = 20) -> list[str]:
    """`vitalfew index`, for a process of its own."""
    words = ["index", dataset, "--name", "test", "--store", str(store), *options]
    settings = [f"encode.encoder=tests.support.fakes:{encoder}", f"load.shard_passages={shard}"]
    return [sys.executable, "-m", "vitalfew.flows.cli", *words, *(part for one in settings for part in ("--set", one))]


def test_the_same_work_is_not_done_twice(tmp_path: Path) -> None:
    index(tmp_path)
    before = contents(tmp_path)
    again = index(tmp_path)
    assert reused(again) == {"load", "split", "encode", "index"}
    assert contents(tmp_path) == before
    fused = index(tmp_path, name="fused", index={"layout": "fused", "alpha": 0.5})
    assert reused(fused) == {"load", "split", "encode"}
    other = index(tmp_path, name="passage", encode={"context": "passage"})
    assert reused(other) == {"load", "split"}


@settings(max_examples=12)
@given(
    st.lists(
        st.one_of(
            st.fixed_dictionaries({"text": st.text(max_size=30)}),
            st.fixed_dictionaries({"title": st.text(max_size=5)}),
            st.sampled_from([{"text": "The same text."}, {"text": "Another. One."}, 7, None]),
        ),
        max_size=20,
    ),
    st.integers(1, 7),
)
def test_rows_in_are_rows_out_and_rejects(tmp_path_factory, rows: list, size: int) -> None:
    folder = tmp_path_factory.mktemp("rows")
    file = folder / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, [*rows, {"text": "One passage that is usable."}])), encoding="utf-8")
    manifest = index(folder / "store", f"jsonl:{file}", load={"shard_passages": size}).manifests[0]
    assert manifest.rows_in == len(rows) + 1 == sum(manifest.rows.values())
    texts = table(folder / "store", "passages")["text"].to_pylist()
    assert len(texts) == len(set(texts))
    rejects = table(folder / "store", "rejects").to_pylist()
    assert all(1 <= row["offset"] <= len(rows) + 1 and row["reason"] and row["source"] for row in rejects)


def test_a_run_that_ends_anywhere_goes_on_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the run before each done-marker in turn: the next run redoes only what has none."""
    due, written = contents(indexed()), list[str]()
    mark_done = Artifact.mark_done

    def end_after_the_next(self: Artifact, record: ShardRecord) -> None:
        name = f"{self.table} {record.shard}"
        assert name not in written, f"{name} was done before"
        mark_done(self, record)
        written.append(name)
        raise EOFError

    monkeypatch.setattr(Artifact, "mark_done", end_after_the_next)
    for attempt in range(100):
        try:
            index(tmp_path / "broken")
            break
        except EOFError:
            assert len(written) == attempt + 1
    assert len(written) == 4 + 4 + 4 + 1 + 3  # shards of load, split, encode, index; preparations of the first three
    assert contents(tmp_path / "broken") == due
    states = [run.state for run in read_runs(tmp_path / "broken")]
    assert states == ["failed"] * len(written) + ["completed"]


def test_two_runs_of_one_corpus_at_once(tmp_path: Path) -> None:
    dataset = "synthetic:passages=150,questions=4,seed=3"
    given = command(tmp_path, dataset, "--runner", "serial", shard=30)
    both = [subprocess.Popen(given, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(process.communicate()[1], process.returncode)[1] for process in both] == [0, 0]
    assert sql(tmp_path, "SELECT state, count(*) FROM runs GROUP BY 1") == [("completed", 2)]
    # every shard was paid for once
    assert sql(tmp_path, "SELECT count(*) FROM costs GROUP BY stage, shard HAVING count(*) > 1") == []


def test_an_encoder_that_gives_nonsense_is_named(tmp_path: Path) -> None:
    for encoder, words in (("NaNEncoder", "not finite"), ("WideEncoder", "64 numbers, not 32")):
        with pytest.raises(BadVectors, match=rf"tests\.support\.fakes:{encoder}.*shard 0.*{words}"):
            index(tmp_path, encode={"encoder": f"tests.support.fakes:{encoder}", "context": "passage"})


@pytest.mark.slow
def test_ctrl_c_ends_the_run_and_its_workers(tmp_path: Path) -> None:
    """A terminal's Ctrl-C: the whole group of processes is interrupted, workers and Prefect's server among them."""
    mark, store = tmp_path / "mark", tmp_path / "store"
    environment = {**os.environ, "VITALFEW_TEST_MARK": str(mark), "PREFECT_HOME": str(tmp_path / "prefect")}
    given = command(store, SYNTHETIC, "--workers", "1", "--runner", "ray", encoder="EndlessEncoder")
    process = subprocess.Popen(
        given, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for(lambda: mark.exists() or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=900)
    assert process.returncode == 130, told
    assert "Cancelled" in told
    assert [run.state for run in read_runs(store)] == ["cancelled"]
    assert reused(index(store)) == {"load", "split"}
