"""`vitalfew plan`: counts from a look at the sources, quotes beside the truth in the ledger, full disks refused."""

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.support.evaluating import copied
from tests.support.fakes import HashEncoder
from tests.support.indexing import index, parameters, sql
from tests.support.quoting import trials_here
from vitalfew.configs.schema import LoadConfig
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.quote import corpus as planning
from vitalfew.flows.pipelines.quote import passages, trial
from vitalfew.flows.pipelines.quote.corpus import ID_RANGE, BottomK, DoesNotFit, Quoted, quote, survey
from vitalfew.flows.pipelines.quote.forecast import Forecast, Line, Speed, Work
from vitalfew.flows.pipelines.quote.trial import StageSample
from vitalfew.storage.costs import find_quote
from vitalfew.tasks.datasets.base import Passage
from vitalfew.tasks.datasets.specification import parse_dataset

CORPUS = "synthetic:passages=400,questions=20,seed=3"
FAKE = ["--set", "encode.encoder=tests.support.fakes:HashEncoder"]


@given(st.lists(st.integers(0, 50)), st.integers(1, 20))
def test_the_sketch_keeps_the_smallest_keys_once(keys: list[int], k: int) -> None:
    sketch: BottomK[int] = BottomK(k)
    for key in keys:
        sketch.add(key, key)
    assert sorted(sketch.values) == sorted(set(keys))[:k]
    if len(set(keys)) < k:
        assert sketch.distinct() == len(set(keys))


def test_the_sketch_counts_what_it_does_not_keep() -> None:
    sketch: BottomK[None] = BottomK(1000)
    for number in range(20_000):
        sketch.add(number * 7919 * (ID_RANGE // 20_011) % ID_RANGE, None)
    assert sketch.distinct() == pytest.approx(20_000, rel=0.1)


def test_a_survey_of_everything_is_exact(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"text": f"Passage {number % 300}."} for number in range(900)] + [{"text": "x" * 300}]
    file.write_text("\n".join(map(json.dumps, rows)))
    _, dataset = parse_dataset(f"jsonl:{file}")
    found = survey([dataset], LoadConfig(max_chars=200), sample=50, seconds=60)
    assert found.complete
    assert (found.records, found.passages, found.questions) == (901, 300, 0)
    assert len(found.sample) == 50


@pytest.mark.parametrize("packed", [False, True])
def test_a_survey_of_a_part_tells_the_whole(tmp_path: Path, packed: bool) -> None:
    # Long rows that do not pack: sources are read in blocks, which are ahead of the rows by some of these.
    rows = [json.dumps({"text": random.Random(number).randbytes(400).hex()}) + "\n" for number in range(20_000)]
    content = "".join(rows)
    file = tmp_path / "rows.jsonl"
    file.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    _, dataset = parse_dataset(f"jsonl:{file}")
    found = survey([dataset], LoadConfig(), sample=2000, seconds=0)
    assert 0 < found.share < 1
    assert found.passages == pytest.approx(20_000, rel=0.25)
    _, dataset = parse_dataset("synthetic:passages=100000,questions=1000")
    found = survey([dataset], LoadConfig(), sample=500, seconds=0)
    assert found.records == pytest.approx(101_000)


@given(st.floats(0, 10), st.floats(0, 10))
def test_lines_never_go_below_nothing(small: float, large: float) -> None:
    line = Line.through((10, small), (100, large))
    assert line.fixed >= 0
    assert line.slope >= 0
    assert line.at(100) == pytest.approx(large)


def sample(units: int, seconds: float, tokens: int = 0) -> StageSample:
    return StageSample(units, 1, units, tokens, seconds, seconds, 1e6, 50 + 100 * units, 0.0, 0.0)


def test_a_forecast_repeats_its_samples_and_adds_the_loading_of_models(tmp_path: Path) -> None:
    plan = graph(parameters(tmp_path, CORPUS))
    samples = sample(10, 5.0), [sample(10, 1.0), sample(100, 1.9)]
    serial = Forecast(plan.stages[0], plan.parameters, *samples)
    one = serial.quote(Work(100, 1))
    assert (one.rows, one.tokens, one.disk_bytes) == (100, 0, 10_050)
    assert one.wall_seconds == pytest.approx(4.0 + 1.9)
    assert serial.quote(Work(400, 4)).wall_seconds == pytest.approx(4.0 + 4 * 1.9)
    two = plan.parameters.model_copy(update={"runner": "ray", "workers": 2})
    parallel = Forecast(plan.stages[0], two, *samples).quote(Work(400, 4))
    assert parallel.wall_seconds == pytest.approx(4.0 + 2 * 1.9)
    assert parallel.cpu_seconds == pytest.approx(2 * 4.0 + 4 * 1.9)
    known = serial.quote(Work(100, 1, tokens=50), Speed(0.1, 0.2))  # though the trial computed no tokens
    assert (known.wall_seconds, known.cpu_seconds) == pytest.approx((4.0 + 5.0, 4.0 + 10.0))


def test_one_sample_is_taken_in_proportion(tmp_path: Path) -> None:
    plan = graph(parameters(tmp_path, CORPUS))
    quoted = Forecast(plan.stages[0], plan.parameters, None, [sample(8, 2.0, tokens=40)]).quote(Work(80, 3))
    assert (quoted.rows, quoted.tokens) == (80, 400)
    assert quoted.wall_seconds == pytest.approx(20.0)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Quoted]:
    store = tmp_path_factory.mktemp("plan") / "store"
    return store, quote(graph(parameters(store, CORPUS, load={"shard_passages": 100})))


@pytest.fixture
def store(planned: tuple[Path, Quoted], tmp_path: Path) -> Path:
    """The store of that quote, with the index that was quoted."""
    index(planned[0], CORPUS, load={"shard_passages": 100})
    return copied(planned[0], tmp_path / "store")


def test_a_plan_counts_and_the_ledger_compares(planned: tuple[Path, Quoted]) -> None:
    store, made = planned
    assert [stage.stage for stage in made.stages] == ["load", "split", "encode", "index"]
    assert made.stages[0].rows == 400
    outcome = index(store, CORPUS, load={"shard_passages": 100})
    rows = sql(
        store, "SELECT stage, quoted_rows / rows, quoted_tokens, tokens, quoted_disk_bytes / disk_bytes FROM ledger"
    )
    assert {row[0] for row in rows} == {manifest.stage for manifest in outcome.manifests}
    for _, ratio, quoted, tokens, disk in rows:
        assert ratio == pytest.approx(1, abs=0.1)
        assert quoted == pytest.approx(tokens, rel=0.1)
        assert disk is None or 0.5 < disk < 2  # 400 passages: what a file has besides its rows weighs much
    with nothing_tried():
        again = quote(graph(parameters(store, CORPUS, load={"shard_passages": 100})))
    assert again.names == ["load", "split", "encode", "index"]
    assert again.stages == []
    assert again.disk_bytes == again.wall_seconds == 0
    assert again.survey.passages == 400


@contextmanager
def nothing_tried() -> Iterator[None]:
    """No process is started for a trial, no source is read, and nothing is encoded in this block."""
    forbidden = mock.Mock(side_effect=AssertionError("nothing is left to do"))
    with (
        mock.patch.object(trial, "subprocess", mock.Mock(Popen=forbidden)),
        mock.patch.object(planning, "survey", forbidden),
        mock.patch.object(HashEncoder, "encode", forbidden),
    ):
        yield


def test_a_finished_run_is_quoted_by_the_command_without_a_trial(store: Path) -> None:
    arguments = ["plan", CORPUS, "--store", str(store), "--set", "load.shard_passages=100", *FAKE]
    with nothing_tried():
        shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("already done") == 4
    assert "a run has nothing to do" in shown.output
    assert "The store has the passages: 400 passages" in shown.output


def test_only_what_is_missing_is_tried(store: Path) -> None:
    """Another layout of the index: sentences and vectors of the samples come from the store."""
    given = parameters(store, CORPUS, load={"shard_passages": 100}, index={"layout": "fused", "alpha": 0.5})
    told: list[str] = []
    with trials_here(), mock.patch.object(HashEncoder, "encode", side_effect=AssertionError("it is encoded already")):
        made = quote(graph(given), told.append)
    assert [stage.stage for stage in made.stages] == ["index"]
    assert {text.partition(":")[0] for text in told} == {"reading the sources", "index"}
    index(store, CORPUS, load={"shard_passages": 100}, index={"layout": "fused", "alpha": 0.5})
    (row,) = sql(store, "SELECT quoted_rows / rows, quoted_disk_bytes / disk_bytes FROM ledger WHERE rows > 0 "
                 f"AND fingerprint = '{made.stages[0].fingerprint}'")  # fmt: skip
    assert row == pytest.approx((1, 1), abs=0.15)


def test_what_a_killed_run_did_costs_nothing(tmp_path: Path) -> None:
    plan = graph(parameters(tmp_path, CORPUS, load={"shard_passages": 100}))
    load, split, encode, _ = plan.stages
    load.run("before")
    split.run("before")
    with trials_here():
        whole = quote(graph(plan.parameters)).stages[0]
    encode.run_preparation("before", lambda rows, tokens: None)
    encode.open()
    _, *others = encode.shards()
    for shard in others:
        encode.run_shard(shard, "before", lambda rows, tokens: None)
    with trials_here():
        left = quote(graph(plan.parameters)).stages[0]
    assert (whole.stage, left.stage) == ("encode", "encode")
    assert left.tokens == pytest.approx(whole.tokens / (1 + len(others)), rel=0.1)
    assert find_quote(tmp_path, whole.fingerprint).tokens == pytest.approx(whole.tokens, rel=0.1)  # for the ledger


def test_a_trial_takes_a_share_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of 600 passages has room for 8 + 32, after the first 4; fewer seconds have room for less."""
    monkeypatch.setattr(trial, "LEAST", 0.0)
    given, told = parameters(tmp_path, "synthetic:passages=600,questions=0,seed=3"), list[str]()
    with trials_here():
        assert quote(graph(given), told.append).stages[0].rows == 600
    assert [text for text in told if text.startswith("encode")] == [f"encode: {size} passages" for size in (4, 8, 32)]
    monkeypatch.setattr(passages, "SECONDS", 0.0)
    told.clear()
    with trials_here():
        quote(graph(given), told.append)
    assert [text for text in told if text.startswith("encode")] == [f"encode: {size} passages" for size in (4, 8)]


@given(st.lists(st.integers(1, 5000), min_size=16, max_size=200))
def test_any_run_of_passages_is_like_all(sizes: list[int]) -> None:
    all_passages = [Passage("", "x" * size) for size in sizes]
    ordered = passages.typical(all_passages)
    assert sorted(map(id, ordered)) == sorted(map(id, all_passages))
    for start in range(0, len(sizes) - 15, 4):
        among = [len(passage.text) for passage in ordered[start : start + 16]]
        assert min(among) <= sorted(sizes)[len(sizes) // 4]
        assert max(among) >= sorted(sizes)[-(len(sizes) // 4) - 1]


def test_a_plan_knows_what_the_store_holds(planned: tuple[Path, Quoted]) -> None:
    store, _ = planned
    index(store, CORPUS, load={"shard_passages": 100})
    given = parameters(store, CORPUS, "synthetic:passages=50,questions=0,seed=4", load={"shard_passages": 100})
    with trials_here():
        made = quote(graph(given))
    assert made.known == pytest.approx(400 / 450, abs=0.06)
    encode = made.stages[2]
    assert encode.tokens < 0.25 * find_quote(store, encode.fingerprint).rows * 20


@pytest.mark.parametrize("distinct", [1, 2])
def test_a_corpus_of_fewer_passages_than_samples(tmp_path: Path, distinct: int) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f'{{"text": "Passage {n % distinct} is here. It is short."}}\n' for n in range(9)))
    with trials_here():
        made = quote(graph(parameters(tmp_path / "s", f"jsonl:{file}")))
    assert made.stages[0].rows == distinct


def test_a_run_starts_where_nothing_surveyed_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning.files, "free_bytes", lambda store: 50_000_000)
    monkeypatch.setattr(planning, "AMPLE", 1 << 40)
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": ""}\n')
    plan = graph(parameters(tmp_path / "s", f"jsonl:{file}"))
    plan.room()
    with pytest.raises(planning.NothingToTry, match="no usable passage"):
        quote(plan)


def test_what_cannot_fit_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning.files, "free_bytes", lambda store: 50_000)
    given = parameters(tmp_path / "s", CORPUS)
    for _ in range(2):  # without a quote, and with the one that the first refusal made
        with (
            trials_here(),
            pytest.raises(DoesNotFit, match=r"needs about [\d.]+ MB, but the disk has 50.0 kB"),
        ):
            graph(given).room()
    with trials_here():
        told = CliRunner().invoke(app, ["plan", CORPUS, "--store", str(tmp_path / "s"), "--runner", "serial", *FAKE])
    assert told.exit_code == 1
    assert "encode" in told.output
    assert "MB, but the disk has 50.0 kB free" in " ".join(told.output.split())
    refused = CliRunner().invoke(
        app, ["index", CORPUS, "--name", "n", "--store", str(tmp_path / "s"), "--runner", "serial", *FAKE]
    )
    assert refused.exit_code == 1
    assert "free some space" in refused.output
    assert not (tmp_path / "s" / "passages").exists()
    monkeypatch.undo()
    graph(given).room()
