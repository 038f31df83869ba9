"""The format huggingface, offline: folders, save_to_disk and the library's cache. Skipped where the library is not."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.datasets.test_datasets import dataset, only, read
from vitalfew.tasks.datasets.base import InputError, Passage, Question, Record
from vitalfew.tasks.datasets.specification import parse_dataset


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    library = pytest.importorskip("datasets", reason="needs the extra huggingface")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return library


ROWS = [{"text": f"Text {number}", "id": number, "gold": {"text": [str(number)]}} for number in range(3)]
PASSAGES: list[tuple[int, Record]] = [(row["id"] + 1, Passage("", row["text"], str(row["id"]))) for row in ROWS]  # type: ignore[operator, arg-type]


def test_a_folder_laid_out_like_one_of_the_hub_is_read(tmp_path: Path, library: Any) -> None:
    library.Dataset.from_list(ROWS).to_parquet(tmp_path / "data" / "train-00000-of-00001.parquet")
    assert read("huggingface", tmp_path) == PASSAGES
    questions = read("huggingface", tmp_path, question="text", answers="gold.text")
    assert [question.answers for question in only(Question, questions)] == [("0",), ("1",), ("2",)]
    assert dataset("huggingface", tmp_path).identity() == {}
    with pytest.raises(InputError, match=r"Bad split: dev\. Available splits: \['train'\]\. See split="):
        read("huggingface", tmp_path, split="dev")
    with pytest.raises(InputError, match=r"has no column 'body'; it has 'text', 'id', 'gold'"):
        read("huggingface", tmp_path, text="body")


def test_a_folder_that_save_to_disk_wrote_is_read(tmp_path: Path, library: Any) -> None:
    train, test = library.Dataset.from_list(ROWS), library.Dataset.from_list(ROWS[1:])
    train.save_to_disk(tmp_path / "one")
    library.DatasetDict({"train": train, "test": test}).save_to_disk(tmp_path / "d")
    assert read("huggingface", tmp_path / "one") == read("huggingface", tmp_path / "d") == PASSAGES
    assert [record for _, record in read("huggingface", tmp_path / "d", split="test")] == [r for _, r in PASSAGES[1:]]
    with pytest.raises(InputError, match=r"has no split 'dev'; it has train, test"):
        read("huggingface", tmp_path / "d", split="dev")


def test_what_was_loaded_from_the_hub_once_is_found_without_a_network(
    tmp_path: Path, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", cache)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    library.load_dataset(str(tmp_path / "notes"), cache_dir=str(cache))
    (loaded,) = [path for path in cache.iterdir() if path.is_dir()]
    loaded.rename(cache / "ada___notes")  # where the library keeps ada/notes of the hub
    _, parsed = parse_dataset("huggingface:ada/notes")
    assert (parsed.files(), list(parsed.identity())) == ([], ["commit"])
    assert list(parsed.records()) == PASSAGES


def test_what_is_neither_here_nor_on_the_hub_is_an_error(library: Any) -> None:
    for specification, message in {
        "huggingface:nobody/nothing": r"^nobody/nothing: .*is not a folder here.*Check the name and the network",
        "huggingface:csv": r"csv is a reader of the library, not a dataset",
    }.items():
        with pytest.raises(InputError, match=message):
            list(parse_dataset(specification)[1].records())


def test_without_the_library_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install .*\[huggingface\]"):
        read("huggingface", tmp_path)
