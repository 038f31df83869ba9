"""What a store holds, as frames."""

import pytest

import vitalfew as vf
from vitalfew.storage.runs import IndexNotFound


def test_an_index_and_its_costs(store: vf.Store) -> None:
    (made,) = store.describe().to_dicts()
    assert (made["name"], made["generation"], made["latest"], made["encoder"]) == ("towns", 1, 1, "minilm")
    assert made["passages"] > 0
    costs = store.index_costs("towns")
    assert {"load", "split", "encode", "index"} <= {*costs["stage"]}
    assert costs["wall_seconds"].sum() > 0
    assert store.gates("towns").is_empty()
    assert store.reject_reasons("towns")["rows"].sum() == len(store.rejects("towns"))
    assert store.rejects("towns", "it's {never}").is_empty()
    for of_index in (store.index_costs, store.gates, store.rejects, store.reject_reasons):
        with pytest.raises(IndexNotFound, match="no index 'gone'"):
            of_index("gone")


def test_corpora_with_one_that_cannot_be_read(own: vf.Store) -> None:
    folder = own.place.parent / "corpora"
    folder.mkdir()
    (folder / "notes.yaml").write_text("datasets: ['jsonl:/notes.jsonl']\ncron: '0 3 * * *'\ngate: {}\n")
    (folder / "bad.yaml").write_text("datasets: [\n")
    rows = {row["name"]: row for row in own.corpora().iter_rows(named=True)}
    assert {"notes", "bad", "demo"} == rows.keys()
    assert (rows["notes"]["cron"], rows["notes"]["gate"]) == ("0 3 * * *", True)
    assert rows["notes"]["margins"] == "passage_recall@10: 0.02"
    assert "not readable as YAML" in rows["bad"]["error"]
