"""Propositions as units: reading a model's lists, ready-made files, the stage, and an index of them from end to end."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from tests.support.indexing import index, sql
from vitalfew.configs.loading import ConfigError
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.splitters.base import StoredPassage
from vitalfew.tasks.splitters.propositions import Propositions, ReadyPropositions, parse

TWO = ["The mill stands.", "It is old."]
# A string that begins with a bracket cannot be told from the end of the list.
PLAIN = st.text(st.characters(blacklist_characters='\\"]', blacklist_categories=["Cs", "Cc"]))
MODEL = {"precision": "fp32", "device": "cpu", "max_new_tokens": 60}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.t5_that_says(tmp_path_factory.mktemp("whole"), json.dumps(TWO))


def passages(*texts: str, title: str = "Mill") -> list[StoredPassage]:
    return [StoredPassage(passage_id(text), title, text) for text in texts]


def make(model: Path, **chosen: Any) -> Propositions:
    return Propositions(Propositions.Options(splitter="propositions", model=str(model), **(MODEL | chosen)))


def ready(file: Path) -> ReadyPropositions:
    return ReadyPropositions(ReadyPropositions.Options(splitter="ready_propositions", file=file))


@settings(max_examples=50)
@given(listed=st.lists(PLAIN, min_size=1), cut=st.integers(0))
def test_of_a_list_that_breaks_off_the_whole_strings_are_kept(listed: list[str], cut: int) -> None:
    output = json.dumps(listed, ensure_ascii=False)
    assert parse(output) == (listed, True)
    found, is_whole = parse(output[: cut % len(output)])
    assert not is_whole
    assert found == listed[: len(found)]
    assert len(found) >= output[: cut % len(output)].count('", "')
    for wrong in ('["A.", 3]', "The mill stands.", "[" * 100_000):
        assert parse(wrong) == ([], False)


def test_a_model_writes_propositions_and_reads_a_long_passage_in_parts(whole: Path) -> None:
    ticks: list[tuple[int, int]] = []
    made = make(whole).rewrite(passages("It stands.", "Old."), lambda *done: ticks.append(done))
    assert (made.units, made.notes) == ([TWO, TWO], {"incomplete": 0})
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (2, made.tokens)
    splitter = make(whole, max_input_tokens=60)
    [passage] = passages("mill " * 40 + "end")
    inputs = splitter._inputs(passage)
    frame = "Title: Mill. Section: . Content: "
    assert len(inputs) > 1
    assert "".join(each.removeprefix(frame) for each in inputs) == passage.text
    assert all(splitter.rewriter.fits(each) for each in inputs)
    assert len(splitter.rewrite([passage]).units[0]) == 2 * len(inputs)


def test_a_file_is_read_by_text_or_id(tmp_path: Path) -> None:
    rows = [
        {"text": "One.", "propositions": ["1", "eins"]},
        {"passage_id": passage_id("Two."), "propositions": ["2"]},
        {"text": "Three.", "propositions": []},
    ]
    file = tmp_path / "it's.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    splitter = ready(file)
    assert splitter.rewrite(passages("Two.", "One.", "Three.", "Four.")).units == [["2"], ["1", "eins"], [], []]
    before = splitter.identity()
    file.write_bytes(file.read_bytes() + b" ")
    assert splitter.identity() != before


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "given.jsonl"
    for content, fault in (
        ('{"propositions": ["a"]}', "1 rows have neither text nor passage_id, 0 have no list"),
        ('{"text": "One.", "propositions": ["a"]', "A row is"),
        ('{"text": "One.", "propositions": ["a"]}\n' * 2, "two rows for one passage, 'One.'"),
    ):
        file.write_text(content)
        with pytest.raises(InputError, match=rf"given\.jsonl.*{fault}"):
            ready(file).rewrite(passages("One."))
    with pytest.raises(ConfigError, match=r"split\.file=FILE"):
        ReadyPropositions(ReadyPropositions.Options())


TEXTS = ["Ada ran.", "Rain falls.", "The old mill stands."]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """Three passages, and a file with propositions of the last two."""
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    listed = [["Rain falls."], ["  ", "A mill stands.", "It is old.", "A mill stands."]]
    rows = [{"text": text, "propositions": each} for text, each in zip(TEXTS[1:], listed, strict=True)]
    (tmp_path / "given.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"jsonl:{tmp_path / 'texts.jsonl'}"


def given_file(folder: Path) -> dict[str, Any]:
    return {"splitter": "ready_propositions", "file": str(folder / "given.jsonl")}


def test_an_index_of_propositions(corpus: str, tmp_path: Path) -> None:
    store, plain = tmp_path / "store", tmp_path / "plain"
    outcome = index(store, corpus, split=given_file(tmp_path), encode={"context": "exact"}, bm25={"enabled": True})
    columns = 'position, trim(sentences.text), start, "end"'
    joined = "FROM sentences JOIN passages USING (passage_id)"
    assert sql(store, f"SELECT passages.text, {columns} {joined} ORDER BY passages.text, position") == [
        ("Ada ran.", 0, "Ada ran.", 0, 0),
        ("Rain falls.", 0, "Rain falls.", 0, 0),
        ("The old mill stands.", 0, "A mill stands.", 0, 0),
        ("The old mill stands.", 1, "It is old.", 0, 0),
    ]
    assert next(manifest for manifest in outcome.manifests if manifest.stage == "split").note("whole") == 1
    assert sql(store, "SELECT count(*) FROM vectors WHERE kind = 'context'") == [(2,)]
    # Passage vectors are of the passages themselves: naive retrieval is the same on both indexes.
    index(plain, corpus)
    query = "SELECT id, vector FROM vectors WHERE kind = 'passage' ORDER BY id"
    assert sql(store, query) == sql(plain, query)


def test_what_does_not_go_with_propositions_is_refused(corpus: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"encode\.context=passage, pooled or exact"):
        index(tmp_path / "store", corpus, split=given_file(tmp_path), encode={"context": "late"})
    (tmp_path / "given.jsonl").write_text('{"text": "Elsewhere.", "propositions": ["a"]}')
    with pytest.raises(InputError, match=r"made no propositions from any passage \(split\.file=.*given\.jsonl"):
        index(tmp_path / "store", corpus, split=given_file(tmp_path))
