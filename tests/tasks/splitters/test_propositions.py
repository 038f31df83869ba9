"""Propositions as units: reading a model's lists, ready-made files, the stage, and an index of them from end to end."""

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.support import tiny_models
from tests.support.indexing import index, parameters, sql
from tests.support.shared import indexed
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import SplitConfig
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.graph import graph
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.rewriter import RewritingFailed
from vitalfew.tasks.registry import with_options
from vitalfew.tasks.split import Rewrite, split_stage
from vitalfew.tasks.splitters.base import StoredPassage
from vitalfew.tasks.splitters.propositions import Propositions, ReadyPropositions, parse

TWO = ["The mill stands.", "It is old."]
# A string that begins with a bracket cannot be told from the end of the list.
PLAIN = st.text(st.characters(blacklist_characters='\\"]', blacklist_categories=["Cs", "Cc"]))
MODEL = {"precision": "fp32", "device": "cpu", "max_new_tokens": 60}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.t5_that_says(tmp_path_factory.mktemp("whole"), json.dumps(TWO))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.t5_that_says(tmp_path_factory.mktemp("broken"), '["The mill stands.", "It is')


def passages(*texts: str, title: str = "Mill") -> list[StoredPassage]:
    return [StoredPassage(passage_id(text), title, text) for text in texts]


def make(model: Path, **chosen: Any) -> Propositions:
    return Propositions(Propositions.Options(splitter="propositions", model=str(model), **(MODEL | chosen)))


def ready(file: Path) -> ReadyPropositions:
    return ReadyPropositions(ReadyPropositions.Options(splitter="ready_propositions", file=file))


# --- What a model wrote


@settings(max_examples=100, deadline=None)
@given(listed=st.lists(st.text(st.characters(blacklist_categories=["Cs"]))), ascii_only=st.booleans())
def test_a_whole_list_is_read_as_it_is(listed: list[str], ascii_only: bool) -> None:
    assert parse(json.dumps(listed, ensure_ascii=ascii_only)) == (listed, True)


@settings(max_examples=100, deadline=None)
@given(listed=st.lists(PLAIN, min_size=1), cut=st.integers(0))
def test_of_a_list_that_breaks_off_the_whole_strings_are_kept(listed: list[str], cut: int) -> None:
    output = json.dumps(listed, ensure_ascii=False)
    found, is_whole = parse(output[: cut % len(output)])
    assert not is_whole
    assert found == listed[: len(found)]
    assert len(found) >= output[: cut % len(output)].count('", "')


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from('[]",\\ a1{}:\n')))
def test_any_output_is_read(output: str) -> None:
    found, _ = parse(output)
    assert all(isinstance(each, str) for each in found)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('["He said "hi" there.", "It is."]', ['He said "hi" there.', "It is."]),
        ('["A.", "B."] and more', ["A.", "B."]),
        ('["A \\"b\\".", "C', ['A "b".']),
        ('["A.", 3]', []),
        ('{"a": ["b"]}', []),
        ("The mill stands.", []),
        ("", []),
        ("[" * 100_000, []),
    ],
)
def test_what_is_no_list(output: str, expected: list[str]) -> None:
    assert parse(output) == (expected, False)


# --- The model


def test_a_model_writes_propositions(whole: Path, broken: Path) -> None:
    ticks: list[tuple[int, int]] = []
    made = make(whole).rewrite(passages("It stands.", "Old."), lambda *done: ticks.append(done))
    assert (made.units, made.notes) == ([TWO, TWO], {"incomplete": 0})
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (2, made.tokens)
    partial = make(broken).rewrite(passages("It stands.", "Old."))
    assert (partial.units, partial.notes) == ([TWO[:1], TWO[:1]], {"incomplete": 2})


@pytest.mark.parametrize("text", ["mill " * 40 + "end", "磨坊" * 40, "x" * 90])
def test_a_long_passage_is_read_in_parts(whole: Path, text: str) -> None:
    splitter = make(whole, max_input_tokens=60)
    [passage] = passages(text)
    inputs = splitter._inputs(passage)
    frame = "Title: Mill. Section: . Content: "
    assert len(inputs) > 1
    assert "".join(each.removeprefix(frame) for each in inputs) == text
    assert all(splitter.rewriter.fits(each) for each in inputs)
    assert splitter._inputs(passages("Short.")[0]) == [f"{frame}Short."]
    assert splitter._inputs(passages("Short.", title="t" * 500)[0]) == ["Title: . Section: . Content: Short."]
    assert len(splitter.rewrite([passage]).units[0]) == 2 * len(inputs)


def test_what_is_missing_is_named(tmp_path: Path, whole: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"chentong00/propositionizer-wiki-flan-t5-large .*split\.model"):
        Propositions(Propositions.Options())
    with pytest.raises(EngineUnavailable, match="not an encoder-decoder"):
        make(tiny_models.llama(tmp_path / "llama"))
    with pytest.raises(RewritingFailed, match=r"split\.max_input_tokens"):
        make(whole, max_input_tokens=8).rewrite(passages("A mill."))


# --- Files


ROWS = [
    {"text": "One.", "propositions": ["1", "eins"], "title": "more"},
    {"passage_id": passage_id("Two."), "propositions": ["2"]},
    {"text": "Nowhere.", "propositions": ["0"]},
    {"text": "Three.", "propositions": []},
]


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet", ".jsonl.gz"])
def test_a_file_is_read_by_text_or_id(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"it's{suffix}"
    if suffix == ".parquet":
        kinds = {"text": pa.string(), "passage_id": pa.int64(), "propositions": pa.list_(pa.string())}
        pq.write_table(pa.Table.from_pylist(ROWS, pa.schema(kinds)), file)
    elif suffix == ".json":
        file.write_text(json.dumps(ROWS, indent=1))
    else:
        lines = "\n".join(map(json.dumps, ROWS)).encode()
        file.write_bytes(gzip.compress(lines) if suffix.endswith(".gz") else lines)
    splitter = ready(file)
    for _ in range(2):
        made = splitter.rewrite(passages("Two.", "One.", "Three.", "Four."))
        assert (made.units, made.tokens) == ([["2"], ["1", "eins"], [], []], 0)
    before = splitter.identity()
    file.write_bytes(file.read_bytes() + b" ")
    assert splitter.identity() != before


def test_a_parquet_file_may_lack_the_ids(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([{"text": "One.", "propositions": ["1"]}]), tmp_path / "a.parquet")
    assert ready(tmp_path / "a.parquet").rewrite(passages("One.")).units == [["1"]]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('{"propositions": ["a"]}', "1 rows have neither text nor passage_id, 0 have no list"),
        ('{"text": "One."}', "0 rows have neither text nor passage_id, 1 have no list"),
        ('{"text": "One.", "propositions": ["a", null]}', "1 have no list of strings"),
        ('{"text": "One.", "propositions": "a"}', "A row is"),
        ('{"text": "One.", "propositions": ["a"]', "A row is"),
        ('{"text": "One.", "propositions": ["a"]}\n' * 2, "two rows for one passage, 'One.'"),
        ("", "empty"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: str, fault: str) -> None:
    file = tmp_path / "given.jsonl"
    file.write_text(content)
    with pytest.raises(InputError, match=rf"given\.jsonl.*{fault}"):
        ready(file).rewrite(passages("One."))


def test_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"split\.file=FILE"):
        ReadyPropositions(ReadyPropositions.Options())
    with pytest.raises(InputError, match="does not exist"):
        ready(tmp_path / "nothing.jsonl")


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


@pytest.mark.parametrize("context", ["passage", "pooled", "exact"])
def test_an_index_of_propositions(file: Path, tmp_path: Path, context: str) -> None:
    outcome = index(tmp_path, CORPUS, split=given_file(file), encode={"context": context}, bm25={"enabled": True})
    rows = sql(tmp_path, "SELECT * EXCLUDE (run_id) FROM sentences ORDER BY passage_id, position")
    by_passage: dict[int, list[Any]] = {}
    for row in rows:
        by_passage.setdefault(row[1], []).append(row)
    listed = {passage_id(row["text"]): row["propositions"] for row in map(json.loads, file.read_text().splitlines())}
    for key, text in texts_of(tmp_path):
        found = by_passage[key]
        expected = [*dict.fromkeys(listed[key][1:])] if key in listed else [text]
        assert [row[5].strip() for row in found] == expected
        assert "".join(row[5] for row in found) == " ".join(expected)
        assert [row[2] for row in found] == [*range(len(found))]
        assert all((row[3], row[4]) == (0, 0) for row in found)
    assert len({row[0] for row in rows}) == len(rows)
    split = next(manifest for manifest in outcome.manifests if manifest.stage == "split")
    assert split.note("whole") == len(by_passage) - len(listed) > 0
    contexts = sql(tmp_path, "SELECT count(*) FROM vectors WHERE kind = 'context'")[0][0]
    several = sum(len(each) for each in by_passage.values() if len(each) > 1)
    assert contexts == (several if context == "exact" else 0)


def test_passage_vectors_are_of_the_passages_themselves(plain: Path, file: Path, tmp_path: Path) -> None:
    """And not of their propositions joined: naive retrieval is the same on both indexes."""
    index(tmp_path, CORPUS, split=given_file(file))
    query = "SELECT id, vector FROM vectors WHERE kind = 'passage' ORDER BY id"
    assert sql(tmp_path, query) == sql(plain, query)


def test_late_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rewritten units .*encode\.context=passage, pooled or exact"):
        index(tmp_path, CORPUS, split=given_file(file), encode={"context": "late"})
    assert graph(parameters(tmp_path, CORPUS, split=given_file(file))).parameters.encode.context == "passage"


def test_an_index_without_a_proposition_is_refused(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "Elsewhere.", "propositions": ["a"]}')
    with pytest.raises(InputError, match=r"made no propositions from any passage \(split\.file=.*other\.jsonl"):
        index(tmp_path / "store", CORPUS, split=given_file(other))


def test_a_cutting_splitter_refuses_a_rewriters_settings(plain: Path, file: Path) -> None:
    for setting, owner in (
        ("file", "ready_propositions"),
        ("device", "propositions"),
        ("max_new_tokens", "propositions"),
    ):
        with pytest.raises(ConfigError, match=rf"split\.{setting} is a setting of splitter {owner}"):
            graph(parameters(plain, CORPUS, split={setting: str(file)}))


def test_the_stage_travels_without_its_model(plain: Path, whole: Path) -> None:
    passages = graph(parameters(plain, CORPUS)).stages[0].artifact
    options = with_options(SplitConfig(splitter="propositions", model=str(whole)), "split")
    stage = split_stage(plain, passages, options)
    assert isinstance(stage, Rewrite)
    assert "model" not in vars(stage.method.rewriter.engine)  # type: ignore[attr-defined]
    again = pickle.loads(pickle.dumps(stage))
    assert "model" not in vars(again.method.rewriter.engine)
    assert again.description() == stage.description()
    assert (again.workers, again.num_gpus) == (1, 0.0)


def test_propositions_of_a_model_from_the_command_line(whole: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    chosen = [f"split.{name}={value}" for name, value in {"splitter": "propositions", "model": whole, **MODEL}.items()]
    options = [part for each in [*chosen, "encode.encoder=tests.support.fakes:HashEncoder"] for part in ("--set", each)]
    corpus = "synthetic:passages=5,questions=3,seed=3"
    common = ["--store", store, "--runner", "serial"]
    done = CliRunner().invoke(app, ["index", corpus, "--name", "dense", *options, *common])
    assert done.exit_code == 0, done.output
    found = sql(tmp_path / "store", "SELECT DISTINCT position, trim(text) FROM sentences ORDER BY ALL")
    assert found == [*enumerate(TWO)]
    [(tokens,)] = sql(tmp_path / "store", "SELECT sum(tokens) FROM costs WHERE stage = 'split'")
    assert tokens > 0
    experiment = tmp_path / "dense.yaml"
    methods: dict[str, Any] = {"dense x": {"retrieve": {"alpha": 1.0}}, "naive": {"retrieve": {"retriever": "passage"}}}
    score = {"metrics": ["passage_recall", "useful_information", "tokens"]}
    generate = {"generator": "tests.support.fakes:FirstWords"}
    experiment.write_text(json.dumps({"index": "dense", "generate": generate, "score": score, "methods": methods}))
    done = CliRunner().invoke(app, ["evaluate", str(experiment), *common], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    values = {
        (method, metric): value
        for method, metric, value in sql(
            tmp_path / "store",
            "SELECT method, metric, value FROM summaries JOIN methods USING (fingerprint) WHERE table_name = 'scores'",
        )
    }
    assert values["dense x", "useful_information"] is None
    assert values["dense x", "prompt_tokens"] > 0
    [(spans,)] = sql(
        tmp_path / "store",
        "SELECT sum(len(origin)) FROM evidence JOIN methods USING (fingerprint) WHERE method = 'dense x'",
    )
    assert spans == 0
