"""`vitalfew plan`: estimates near what a run then takes, nothing for what is done, nothing written, full disks refused;
and `runner: auto`, which takes one process where Ray saves less than it costs."""

import gzip
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from typer.testing import CliRunner

from tests.support import evaluating
from tests.support.damage import flip
from tests.support.evaluating import copied, searchable
from tests.support.fakes import HashEncoder
from tests.support.indexing import contents, index, parameters, sql
from tests.support.paid import PaidServer
from tests.support.prices import PER_TOKEN, priced
from vitalfew.configs.loading import merged
from vitalfew.configs.schema import LoadConfig
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines import estimate as estimates
from vitalfew.flows.pipelines.estimate import (
    BYTES,
    OPEN,
    DoesNotFit,
    Quoted,
    quote,
    survey,
)
from vitalfew.flows.pipelines.evaluate import EvaluationPlan
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.runner import runner_for
from vitalfew.storage.costs import Quote, save_quotes
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.specification import parse_dataset

CORPUS = "synthetic:passages=400,questions=20,seed=3"
LOADED = {"shard_passages": 100}
FAKE = ["--set", "encode.encoder=tests.support.fakes:HashEncoder"]
CRITIQUE = {"critic": "tests.support.fakes:WordCritic"}
METHODS: dict[str, Any] = {
    "none": {"retrieve": None},
    "naive": {"retrieve": {"retriever": "passage"}},
    "again": {"retrieve": {"retriever": "passage"}, "refine": {"max_words": 100_000}},
    "several": {"generate": {"per_context": True}, "critique": CRITIQUE, "select": {}},
}
GENERATE = {"generator": "tests.support.fakes:FirstWords"}
SETTINGS: dict[str, Any] = {
    "index": "test", "questions": {"batch": 16}, "generate": GENERATE, "retrieve": {"top_k": 5}, "methods": METHODS
}  # fmt: skip
NAIVE = {**SETTINGS, "methods": {"naive": METHODS["naive"]}}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "some")


# Passages


@pytest.fixture(scope="module")
def quoted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Quoted]:
    """A store with a quote of an index, and that index."""
    store = tmp_path_factory.mktemp("plan") / "store"
    made = quote(graph(parameters(store, CORPUS, load=LOADED)))
    assert {path.relative_to(store).parts[0] for path in store.rglob("*")} == {"quotes"}
    index(store, CORPUS, load=LOADED)
    return store, made


def test_a_part_of_the_sources_tells_the_whole(tmp_path: Path) -> None:
    # Long rows that do not pack: sources are read in blocks, which are ahead of the rows by some of these.
    rows = [json.dumps({"text": random.Random(number).randbytes(400).hex()}) + "\n" for number in range(9_000)]
    file = tmp_path / "rows.jsonl.gz"
    file.write_bytes(gzip.compress("".join(rows + rows[:100]).encode()))
    _, dataset = parse_dataset(f"jsonl:{file}")
    whole, part = (survey([dataset], LoadConfig(), sample=1000, seconds=seconds) for seconds in (60, 0))
    assert (whole.share, whole.passages, len(whole.sample)) == (1, 9000, 1000)
    assert 0 < part.share < 1
    assert part.passages == pytest.approx(9000, rel=0.3)


def test_an_index_takes_what_was_quoted(quoted: tuple[Path, Quoted]) -> None:
    store, made = quoted
    assert [stage.stage for stage in made.stages] == ["load", "split", "encode", "index"]
    assert "400 passages" in made.headings[0]
    assert made.stages[0].rows == 400
    ledger = sql(store, "SELECT quoted_rows / rows, quoted_tokens, tokens, quoted_disk_bytes / disk_bytes FROM ledger")
    assert len(ledger) == 4
    for rows, expected, tokens, disk in ledger:
        assert rows == pytest.approx(1, abs=0.2)
        assert expected == pytest.approx(tokens, rel=0.2)
        assert 0.4 < disk < 3  # 400 passages: what a file has besides its rows weighs much


def test_what_the_store_has_costs_nothing(quoted: tuple[Path, Quoted], tmp_path: Path) -> None:
    """All of it; then another layout of the index, and more passages."""
    store = copied(quoted[0], tmp_path / "store")
    with mock.patch.object(HashEncoder, "encode", None):
        own = ["--set", "load.shard_passages=100", "--set", "bm25.enabled=false"]
        arguments = ["plan", CORPUS, "--store", str(store), *own, *FAKE]
        shown = CliRunner().invoke(app, arguments).output
    assert shown.count("already done") == 4
    assert "a run has nothing to do" in shown
    made = quote(graph(parameters(store, CORPUS, load=LOADED, index={"layout": "fused"})))
    assert [stage.stage for stage in made.stages] == ["index"]
    more = quote(graph(parameters(store, CORPUS, "synthetic:passages=50,questions=0,seed=4", load=LOADED)))
    known = float(more.headings[1].partition("%")[0].rpartition(" ")[2])
    assert known == pytest.approx(100 * 400 / 450, abs=6)
    assert more.stages[2].tokens < 0.25 * quoted[1].stages[2].tokens


def test_what_a_killed_run_did_costs_nothing(tmp_path: Path) -> None:
    plan = graph(parameters(tmp_path, CORPUS, load=LOADED))
    load, split, encode, _ = plan.stages
    load.run("before")
    split.run("before")
    whole = quote(graph(plan.parameters)).stages[0]
    encode.run_preparation("before", lambda rows, tokens: None)
    encode.open()
    for shard in encode.shards()[1:]:
        encode.run_shard(shard, "before", lambda rows, tokens: None)
    left = quote(graph(plan.parameters)).stages[0]
    assert (whole.stage, left.stage) == ("encode", "encode")
    assert left.tokens == pytest.approx(whole.tokens / len(encode.shards()), rel=0.01)


def test_what_cannot_fit_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates.files, "free_bytes", lambda store: 50_000)
    given = parameters(tmp_path / "s", CORPUS)
    with pytest.raises(DoesNotFit, match=r"needs about [\d.]+ MB, but the disk has 50.0 kB"):
        graph(given).room()
    for command in (["plan", CORPUS], ["index", CORPUS, "--name", "n"]):
        told = CliRunner().invoke(app, [*command, "--store", str(tmp_path / "s"), "--runner", "serial", *FAKE])
        assert told.exit_code == 1
        assert "Free some space" in " ".join(told.output.split())
    assert not (tmp_path / "s" / "passages").exists()


# Questions


def planned(store: Path, settings: Mapping[str, Any] = SETTINGS, **given: Any) -> EvaluationPlan:
    plan = graph(evaluating.parameters(store, settings, **given))
    assert isinstance(plan, EvaluationPlan)
    return plan


def check_ledger(store: Path) -> None:
    """The stages that asked or rated took the tokens that were quoted, to a third."""
    what = "WHERE tokens > 0 AND stage IN ('generate', 'critique')"
    pairs = sql(store, f"SELECT quoted_tokens, tokens FROM ledger {what}")
    assert pairs
    assert all(expected == pytest.approx(actual, rel=0.3) for expected, actual in pairs)


def quoted_tokens(plan: EvaluationPlan, stage: str) -> int:
    return sum(quote.tokens for quote in quote(plan).stages if quote.stage == stage)


def test_an_evaluation_takes_what_was_quoted(store: Path) -> None:
    made = quote(planned(store))
    assert contents(store) == contents(searchable())
    assert {path.name for path in store.iterdir()} - {path.name for path in searchable().iterdir()} == {"quotes"}
    assert [quote.rows for quote in made.stages if quote.stage == "generate"] == [45, 45, 45, 5 * 45]
    # the prompts of naive are asked once
    assert [quote.tokens > 0 for quote in made.stages if quote.stage == "generate"] == [True, True, False, True]
    evaluating.run(store, SETTINGS)
    check_ledger(store)
    assert "Estimate → actual" in CliRunner().invoke(app, ["costs", "trial", "--store", str(store)]).output
    told: list[str] = []
    again = quote(planned(store), told.append)
    assert not again.stages
    assert (again.wall_seconds, told) == (0, [])
    # the same prompts under another method: nothing is asked
    other = merged(SETTINGS, {"methods": {"naive": {"refine": {"max_words": 90_000}}}})
    assert quoted_tokens(planned(store, other), "generate") == 0


def test_a_server_is_sent_nothing_and_its_price_is_near(store: Path, tmp_path: Path) -> None:
    """The first quote has the most that answers may cost; the second rests on earlier ones, unless they are damaged."""
    with PaidServer() as server, priced(tmp_path, "openai:tiny"):
        generate = {"generator": "openai", "model": "tiny", "base_url": server.url, "max_tokens": 40, "temperature": 0}
        settings, later = {**NAIVE, "generate": generate}, {"sample": 30, "seed": 7}
        first = quote(planned(store, settings, questions={"sample": 12}))
        assert not server.asked
        assert first.tokens > 40 * 12
        assert any("nothing was sent to tiny" in basis and "max_tokens=40" in basis for basis in first.bases)
        assert any("the time of openai:tiny is unknown" in basis for basis in first.bases)
        evaluating.run(store, settings, questions={"sample": 12})
        ((before,),) = sql(store, "SELECT sum(usd) FROM ledger")
        assert first.requests_usd > before > 0
        damaged, asked = copied(store, tmp_path / "damaged"), len(server.prompts())
        second = quote(planned(store, settings, questions=later))
        assert len(server.prompts()) == asked
        assert any("(mean of 12 earlier ones)" in basis for basis in second.bases)
        evaluating.run(store, settings, questions=later)
        new = server.prompts()[asked:]
        tokens = sum(len(prompt.encode()) / BYTES + PaidServer.usage(prompt)[1] for prompt in new)
        assert second.requests_usd == pytest.approx(PER_TOKEN * tokens, rel=0.3)
        for path in [*damaged.glob("candidates/*/*.parquet"), *damaged.glob("costs/*/*.parquet")]:
            flip(path)
        assert quote(planned(damaged, settings, questions=later)).bases[0] == first.bases[0]


CHOICE: dict[str, Any] = {
    **SETTINGS,
    "choose": {"retrieve.top_k": [2, 6], "on": "development", "by": "answer_recall@5"},
    "methods": {"none": {"retrieve": None}, "pareto": {}},
}


def test_a_choice_is_quoted_with_both_halves(store: Path) -> None:
    with pytest.raises(InputError, match="development questions"):
        quote(planned(store, CHOICE, questions={"sample": 3}))
    quoted = quote(planned(store, CHOICE))
    assert OPEN in quoted.bases
    assert [part.headings[0].partition(":")[0] for part in quoted.parts] == ["trial/development", "trial"]
    none, many = (quote.tokens for quote in quoted.parts[0].stages if quote.stage == "generate")
    assert none < many


# The runner


def test_a_small_corpus_takes_one_process_and_a_large_one_takes_ray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(passages: int, is_named: bool = False, **given: Any) -> str:
        settings = {"runner": "auto", "workers": 2, **given}
        plan = graph(parameters(tmp_path, f"synthetic:passages={passages},questions=1", **settings))
        return runner_for(plan, is_named)

    assert (chosen(100), chosen(1_000_000), chosen(1_000_000, workers=1)) == ("serial", "ray", "serial")
    assert (chosen(100, runner="ray"), chosen(1_000_000, runner="serial")) == ("ray", "serial")
    assert chosen(100, is_named=True) == "ray"
    assert chosen(100, encode={"encoder": "tests.support.fakes:GpuEncoder"}) == "ray"
    later: dict[str, Any] = {"encode": {"vectors": "later"}, "bm25": {"enabled": True}}
    assert chosen(3_000, **later) == "serial"  # nothing is encoded
    for seconds, name in ((1000.0, "ray"), (1.0, "serial")):  # the quote decides where there is one
        stages = graph(parameters(tmp_path, "synthetic:passages=100,questions=1")).stages
        known = [(stage.artifact.fingerprint, stage.name, "ray", 2, 1, 1, seconds, seconds) for stage in stages]
        save_quotes(tmp_path, [Quote(*each, 0.0, 1, 1, 0.0) for each in known])
        assert chosen(100) == name
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    assert chosen(100) == "ray"
