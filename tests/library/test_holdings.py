"""What a store holds, as frames."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import vitalfew as vf
from vitalfew.configs.loading import ConfigError, read_yaml
from vitalfew.storage.runs import IndexNotFound
from vitalfew.tasks.registry import UnknownName


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


def test_a_gate_and_a_schedule_are_added_to_the_file_of_a_corpus(own: vf.Store) -> None:
    folder = own.place.parent / "corpora"
    folder.mkdir()
    file = folder / "notes.yaml"
    before = "# ours\ndatasets: ['jsonl:/notes.jsonl']  # all notes"
    file.write_text(before)
    gate = {"gate": {"margins": {"passage_recall@10": 0.02}}}
    assert own.extend_corpus("notes", gate, write=False).added == "gate:\n  margins: {passage_recall@10: 0.02}\n"
    assert file.read_text() == before
    assert own.extend_corpus("notes", gate).file == file
    schedule = {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}
    changed = own.extend_corpus("notes", schedule)
    assert file.read_text() == changed.after
    assert changed.after.startswith(f"{before}\ngate:\n")
    (row,) = own.corpora().filter(name="notes").to_dicts()
    assert (row["gate"], row["cron"], row["timezone"]) == (True, "0 3 * * *", "Europe/Berlin")
    with pytest.raises(ConfigError, match=r"notes\.yaml has gate already \(line 3\); change it there"):
        own.extend_corpus("notes", gate)
    for wrong, said in (
        ({"gate": {"margins": {"recall": 0.02}}}, "no metric 'recall'"),
        ({"cron": "0 0 31 2 *"}, "there is no such time"),
        ({"kron": "x"}, "did you mean 'cron'"),
    ):
        (folder / "more.yaml").write_text("{datasets: [synthetic]}\n")
        with pytest.raises(ConfigError, match=r"more\.yaml: with these lines at its end, "):
            own.extend_corpus("more", gate)
        (folder / "more.yaml").write_text("datasets: [synthetic]\n")
        with pytest.raises(ConfigError, match=said):
            own.extend_corpus("more", wrong)
        assert (folder / "more.yaml").read_text() == "datasets: [synthetic]\n"
    assert own.extend_corpus("demo", schedule).file == folder / "demo.yaml"
    assert own.corpora().filter(name="demo")["file"].to_list() == [str(folder / "demo.yaml")]
    (own.place / "corpora").write_text("where the directory would be")
    with pytest.raises(OSError, match=r"(?s)Add these lines to the file .*/corpora/demo\.yaml yourself:\ncron: 0 3"):
        vf.Store(own.place / "store").extend_corpus("demo", schedule)
    with pytest.raises(UnknownName, match="did you mean 'notes'"):
        own.extend_corpus("nots", gate)


def test_two_writers_of_a_corpus_lose_no_line(own: vf.Store) -> None:
    folder = own.place.parent / "corpora"
    folder.mkdir()
    file = folder / "notes.yaml"
    added = [{"cron": "0 3 * * *"}, {"max_usd": 1}, {"split": {"splitter": "punkt"}}]
    for _ in range(20):
        file.write_text("datasets: [synthetic]\n")
        with ThreadPoolExecutor(len(added)) as threads:
            [*threads.map(lambda settings: own.extend_corpus("notes", settings), added)]
        assert read_yaml(file).keys() == {"datasets", "cron", "max_usd", "split"}
    assert [path.name for path in folder.iterdir()] == ["notes.yaml"]


def test_what_a_corpus_would_change(own: vf.Store) -> None:
    folder = own.place.parent / "corpora"
    folder.mkdir()
    (folder / "towns.yaml").write_text("datasets: [synthetic]\nbm25: {enabled: true}\n")
    changes = {row["setting"]: (row["index"], row["corpus"]) for row in own.corpus_changes("towns").to_dicts()}
    assert changes["datasets"][1] == "synthetic"
    assert "encode.encoder" not in changes
    assert own.corpus_changes("demo").is_empty()
