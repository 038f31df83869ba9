"""Propositions as units: reading a model's lists, ready-made files, the stage, and an index of them from end to end."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from tests.support.indexing import index, parameters, sql
from tests.support.shared import indexed
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.graph import graph
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.rewriter import RewritingFailed
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


# --- What a model wrote


@settings(max_examples=50, deadline=None)
@given(listed=st.lists(PLAIN, min_size=1), cut=st.integers(0))
def test_of_a_list_that_breaks_off_the_whole_strings_are_kept(listed: list[str], cut: int) -> None:
    output = json.dumps(listed, ensure_ascii=False)
    assert parse(output) == (listed, True)
    found, is_whole = parse(output[: cut % len(output)])
    assert not is_whole
    assert found == listed[: len(found)]
    assert len(found) >= output[: cut % len(output)].count('", "')


def test_what_is_no_list() -> None:
    for output, expected in (
        ('["He said "hi" there.", "It is."]', ['He said "hi" there.', "It is."]),
        ('["A.", "B."] and more', ["A.", "B."]),
        ('["A.", 3]', []),
        ("The mill stands.", []),
        ("[" * 100_000, []),
    ):
        assert parse(output) == (expected, False)


# --- The model


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


def test_what_is_missing_is_named(tmp_path: Path, whole: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"chentong00/propositionizer-wiki-flan-t5-large .*split\.model"):
        Propositions(Propositions.Options())
    with pytest.raises(EngineUnavailable, match="not an encoder-decoder"):
        make(tiny_models.llama(tmp_path / "llama"))
    with pytest.raises(RewritingFailed, match=r"split\.max_input_tokens"):
        make(whole, max_input_tokens=8).rewrite(passages("A mill."))


# --- Files


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".json", ".parquet"])
def test_a_file_is_read_by_text_or_id(tmp_path: Path, suffix: str) -> None:
    rows = [
        {"text": "One.", "propositions": ["1", "eins"], "title": "more"},
        {"passage_id": passage_id("Two."), "propositions": ["2"]},
        {"text": "Nowhere.", "propositions": ["0"]},
        {"text": "Three.", "propositions": []},
    ]
    file = tmp_path / f"it's{suffix}"
    if suffix == ".parquet":
        kinds = {"text": pa.string(), "passage_id": pa.int64(), "propositions": pa.list_(pa.string())}
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(kinds)), file)
    elif suffix == ".json":
        file.write_text(json.dumps(rows, indent=1))
    else:
        file.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    splitter = ready(file)
    made = splitter.rewrite(passages("Two.", "One.", "Three.", "Four."))
    assert (made.units, made.tokens) == ([["2"], ["1", "eins"], [], []], 0)
    before = splitter.identity()
    file.write_bytes(file.read_bytes() + b" ")
    assert splitter.identity() != before


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "given.jsonl"
    for content, fault in (
        ('{"propositions": ["a"]}', "1 rows have neither text nor passage_id, 0 have no list"),
        ('{"text": "One.", "propositions": ["a", null]}', "1 have no list of strings"),
        ('{"text": "One.", "propositions": ["a"]', "A row is"),
        ('{"text": "One.", "propositions": ["a"]}\n' * 2, "two rows for one passage, 'One.'"),
    ):
        file.write_text(content)
        with pytest.raises(InputError, match=rf"given\.jsonl.*{fault}"):
            ready(file).rewrite(passages("One."))
    with pytest.raises(ConfigError, match=r"split\.file=FILE"):
        ReadyPropositions(ReadyPropositions.Options())


# --- The stage and the index

CORPUS = "synthetic:passages=24,questions=4,seed=3"


def texts_of(store: Path) -> list[tuple[int, str]]:
    return sql(store, "SELECT passage_id, text FROM passages")


@pytest.fixture(scope="module")
def plain() -> Path:
    return indexed(CORPUS)


@pytest.fixture(scope="module")
def file(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three words each for a proposition; every tenth passage is not in it."""
    rows = []
    for number, (_, text) in enumerate(texts_of(plain)):
        words = text.split()
        listed = [" ".join(words[start : start + 3]) + "!" for start in range(0, len(words), 3)]
        if number % 10:
            rows.append({"text": text, "propositions": ["  ", *listed, listed[0]]})
    path = tmp_path_factory.mktemp("ready") / "propositions.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def given_file(file: Path) -> dict[str, Any]:
    return {"splitter": "ready_propositions", "file": str(file)}


@pytest.mark.parametrize("context", ["passage", "exact"])
def test_an_index_of_propositions(plain: Path, file: Path, tmp_path: Path, context: str) -> None:
    outcome = index(tmp_path, CORPUS, split=given_file(file), encode={"context": context}, bm25={"enabled": True})
    rows = sql(tmp_path, 'SELECT passage_id, position, start, "end", text FROM sentences ORDER BY passage_id, position')
    by_passage: dict[int, list[Any]] = {}
    for row in rows:
        by_passage.setdefault(row[0], []).append(row)
    listed = {passage_id(row["text"]): row["propositions"] for row in map(json.loads, file.read_text().splitlines())}
    for key, text in texts_of(tmp_path):
        found = by_passage[key]
        expected = [*dict.fromkeys(listed[key][1:])] if key in listed else [text]
        assert [row[4].strip() for row in found] == expected
        assert [row[1] for row in found] == [*range(len(found))]
        assert all((row[2], row[3]) == (0, 0) for row in found)
    split = next(manifest for manifest in outcome.manifests if manifest.stage == "split")
    assert split.note("whole") == len(by_passage) - len(listed) > 0
    contexts = sql(tmp_path, "SELECT count(*) FROM vectors WHERE kind = 'context'")[0][0]
    several = sum(len(each) for each in by_passage.values() if len(each) > 1)
    assert contexts == (several if context == "exact" else 0)
    # Passage vectors are of the passages themselves: naive retrieval is the same on both indexes.
    query = "SELECT id, vector FROM vectors WHERE kind = 'passage' ORDER BY id"
    assert sql(tmp_path, query) == sql(plain, query)


def test_what_does_not_go_with_propositions_is_refused(plain: Path, file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"encode\.context=passage, pooled or exact"):
        index(tmp_path, CORPUS, split=given_file(file), encode={"context": "late"})
    with pytest.raises(ConfigError, match=r"split\.file is a setting of splitter ready_propositions"):
        graph(parameters(plain, CORPUS, split={"file": str(file)}))
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "Elsewhere.", "propositions": ["a"]}')
    with pytest.raises(InputError, match=r"made no propositions from any passage \(split\.file=.*other\.jsonl"):
        index(tmp_path / "store", CORPUS, split=given_file(other))


def test_an_index_of_what_a_model_writes(whole: Path, tmp_path: Path) -> None:
    split = {"splitter": "propositions", "model": str(whole), **MODEL}
    index(tmp_path, "synthetic:passages=5,questions=3,seed=3", split=split)
    assert sql(tmp_path, "SELECT DISTINCT position, trim(text) FROM sentences ORDER BY ALL") == [*enumerate(TWO)]
    assert sql(tmp_path, "SELECT sum(tokens) > 0 FROM costs WHERE stage = 'split'") == [(True,)]
