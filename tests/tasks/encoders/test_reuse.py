"""Incremental re-encoding: a corpus that has changed a little is encoded a little, and comes out the same."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.indexing import contents, index, table
from vitalfew.flows.pipelines.run import Outcome
from vitalfew.storage.artifacts import Artifact, ShardRecord

UNTRAINED, BEFORE = {"sample_chars": 1}, {"sample_chars": 2}
"""The splitter learns of one text alone, for its training is no matter here; of a corpus that was there before it is
another artifact, so that no stage is found done."""


def write(folder: Path, texts: list[str]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "corpus.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return f"jsonl:{file}"


def passage(number: int) -> str:
    return f"The town {number} lies on a river. It has {number} mills. In winter {number} of them stand still."


def tokens(outcome: Outcome) -> int:
    (encode,) = (manifest for manifest in outcome.manifests if manifest.stage == "encode")
    return sum(record.cost.tokens for record in encode.shards)


def reused(outcome: Outcome) -> int:
    (encode,) = (manifest for manifest in outcome.manifests if manifest.stage == "encode")
    return encode.note("reused")


@settings(max_examples=4)
@given(
    st.sets(st.integers(0, 24), max_size=16),
    st.sets(st.integers(0, 24), min_size=1, max_size=16),
    st.sampled_from([3, 8, 100]),
    st.sampled_from([3, 8, 100]),
    st.sampled_from(["exact", "passage", "pooled", "late"]),
)
def test_any_corpus_comes_out_the_same_after_any_other(
    tmp_path_factory, before: set[int], after: set[int], small: int, large: int, mode: str
) -> None:
    """Whatever the shards' number was: the vectors are those of a fresh store, and what both have is not encoded."""
    folder = tmp_path_factory.mktemp("reuse")
    if before:
        earlier = write(folder, [passage(number) for number in sorted(before)])
        index(folder / "s", earlier, encode={"context": mode}, load={"shard_passages": small}, split=BEFORE)
    corpus = write(folder, [passage(number) for number in after])
    given = {"encode": {"context": mode}, "load": {"shard_passages": large}, "split": UNTRAINED}
    outcome = index(folder / "s", corpus, **given)
    index(folder / "fresh", corpus, **given)
    fresh = contents(folder / "fresh")
    assert {name: digest for name, digest in contents(folder / "s").items() if name in fresh} == fresh
    if after <= before:
        assert tokens(outcome) == 0


def test_shards_of_a_run_that_was_killed_are_taken_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [passage(number) for number in range(100)]
    mark_done = Artifact.mark_done

    def die_after_the_third(self: Artifact, record: ShardRecord) -> ShardRecord:
        marked = mark_done(self, record)
        if self.table == "vectors" and record.shard == 2:
            raise KeyboardInterrupt
        return marked

    monkeypatch.setattr(Artifact, "mark_done", die_after_the_third)
    with pytest.raises(KeyboardInterrupt):
        index(tmp_path / "s", write(tmp_path, texts))
    monkeypatch.undo()
    vectors = table(tmp_path / "s", "vectors").num_rows
    outcome = index(tmp_path / "s", write(tmp_path, [*texts, passage(100)]))
    assert len([record for record in outcome.manifests[2].shards if record.notes["reused"]]) == 3
    assert reused(outcome) == vectors


def test_a_changed_shard_is_not_taken_from(tmp_path: Path) -> None:
    texts = [passage(number) for number in range(100)]
    index(tmp_path / "s", write(tmp_path, texts))
    shard = sorted((tmp_path / "s" / "vectors").glob("*/00001.parquet"))[0]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    outcome = index(tmp_path / "s", write(tmp_path, [*texts, passage(100)]))
    assert [bool(record.notes["reused"]) for record in outcome.manifests[2].shards] == [True, False] + [True] * 6
