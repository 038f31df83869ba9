"""Methods set against one another: baselines, intervals, seeds, variants of an index, paper and ours, two runs."""

import csv
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.support.evaluating import copied, evaluated
from tests.support.indexing import index
from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.experiments import evaluation, find, names
from vitalfew.storage.indexes.opened import IndexMismatch
from vitalfew.tasks.report import read_report, write_report
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.papers import Paper, beside, conditions, paper_of
from vitalfew.tasks.reports.shown.notes import failures, statistics

CORPUS = "synthetic:passages=120,questions=60,seed=3"
FAKE = {"generator": "tests.support.fakes:FirstWords"}
TWO: dict[str, Any] = {
    "index": "test",
    "generate": FAKE,
    "retrieve": {"top_k": 5},
    "baseline": "naive",
    "methods": {"pareto": {"retrieve": {"alpha": 0.6}}, "naive": {"retrieve": {"retriever": "passage"}}},
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("indexed")
    index(store, CORPUS, bm25={"enabled": True}, encode={"context": "passage", "text": "unit"})
    report(store)  # most tests begin with it: in their copies of the store it is done
    return store


@pytest.fixture
def store(indexed: Path, tmp_path: Path) -> Path:
    return copied(indexed, tmp_path / "store")


def report(store: Path, settings: dict[str, Any] = TWO, name: str = "trial", **given: Any) -> Report:
    parameters = evaluation(name, settings, {"store": store, "runner": "serial", **given})
    return read_report(store, evaluated(parameters).run)


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, " ".join((result.output + result.stderr).split())


# Baselines and intervals


def test_differences_are_to_the_baseline_with_intervals(store: Path) -> None:
    made = report(store)
    pareto, naive = made.methods
    assert (pareto.against, naive.against, naive.differences) == (1, None, {})
    difference = pareto.differences["passage_recall@5"]
    ours, theirs = (method.summaries["passage_recall@5"] for method in (pareto, naive))
    assert difference.mean_difference == pytest.approx((ours.value or 0) - (theirs.value or 0))
    assert difference.questions == difference.better + difference.worse + difference.equal == ours.questions
    low, high = ours.ends()
    assert low < (ours.value or 0) < high
    long = {(row["method"], row["metric"]): row for row in pq.read_table(write_report(store, made).scores).to_pylist()}
    assert long["pareto", "passage_recall@5"]["p_holm"] == difference.p_holm
    assert long["naive", "passage_recall@5"]["difference"] is None


def test_below_thirty_questions_intervals_may_be_too_narrow(store: Path) -> None:
    for questions in (12, 30):
        made = report(store, questions={"sample": questions})
        assert made.methods[0].differences["f1"].low is not None
        assert ("by fewer than 30 questions may be too narrow." in "\n".join(statistics(made))) is (questions < 30)


def test_seeds_are_one_method_their_mean(store: Path) -> None:
    alone = report(store).methods[0]
    made = report(store, generate={"seed": [1, 2]})
    assert [(method.name, method.seeds) for method in made.methods] == [("pareto", (1, 2)), ("naive", (1, 2))]
    summary = made.methods[0].summaries["f1"]
    assert (summary.value, summary.spread) == (alone.summaries["f1"].value, 0)  # the same answers, whatever the seed
    assert "Means of 2 seeds (1, 2)" in command("report", "trial", "--full", "--store", str(store))[1]


# Variants of an index


def test_a_variant_is_found_by_its_settings_or_the_command_is_told(store: Path) -> None:
    given = ("--index", "test", "--store", str(store), "--runner", "serial")
    code, output = command("evaluate", "paretorag/context_modes", *given)
    assert code == 1
    made = output[output.index("vitalfew index") :].split()
    assert {"encode.context=late", "encode.encoder=tests.support.fakes:HashEncoder"} <= {*made}  # as of the named one
    index(store, CORPUS, name="elsewhere", encode={"context": "exact", "text": "unit"})
    index(store, "synthetic:passages=60,questions=10,seed=4", name="another-corpus", encode={"context": "exact"})
    variant = {"pareto": {"variant": {"encode": {"context": "exact"}}}}
    found = report(store, {**TWO, "methods": {**TWO["methods"], **variant}})
    assert found.methods[0].settings["index"] == "elsewhere"
    assert [each.name for each in found.indexes] == ["elsewhere", "test"]


# Paper and ours

FIGURES = {
    "less": ("lower", {"metric": "prompt_tokens", "over": "naive"}),
    "more": ("higher", {"metric": "prompt_tokens", "minus": "naive"}),
    "cost": (None, {"metric": "stage_seconds", "over": "naive"}),
    "gone": ("higher", {"metric": "f1", "minus": "nobody"}),
}


def test_printed_figures_stand_beside_ours(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = [
        {"what": what, "source": "text", "printed": 0.9, "claim": claim, "ours": {"method": "pareto", **ours}}
        for what, (claim, ours) in FIGURES.items()
    ]
    repeated = {"trial": {"figures": figures, "deviations": ["Another corpus."]}}
    paper = Paper.model_validate({"paper": "A paper", "settings": "elsewhere", "experiments": repeated})
    monkeypatch.setattr("vitalfew.tasks.report.paper_of", lambda experiment: paper)
    made = report(store, questions={"sample": 40})
    less, more, cost, gone = (row[1:] for row in beside(made))
    ratio = (made.value(made.methods[0], "prompt_tokens") or 0) / (made.value(made.methods[1], "prompt_tokens") or 1)
    assert (less[1], less[3]) == (f"{ratio:.2f} ×", "same direction")
    low, high = (float(end.strip(" ×")) for end in less[2].split(" to "))
    assert low < ratio < high < 1
    assert more[3] == "contradicted"
    assert cost[2] == "no interval: one measurement"
    assert gone[1:4] == ("–", "–", "–")
    assert "Another corpus." in conditions(made)


@pytest.mark.parametrize("name", [name for name in names() if paper_of(name)])
def test_every_printed_figure_is_of_methods_that_its_experiment_has(name: str) -> None:
    made = evaluation(name, find(name)[1], {"index": "some"})
    assert isinstance(made, Evaluate)
    assert any(map(made.is_baseline, made.methods))
    methods = {method.name for method in made.methods}
    paper = paper_of(name)
    for each in paper.experiments[name].figures if paper and name in paper.experiments else ():
        assert {each.ours.method, each.ours.minus or each.ours.method, each.ours.over or each.ours.method} <= methods


# Two runs


def test_two_methods_of_a_run_are_compared_question_by_question(store: Path) -> None:
    made = report(store)
    code, output = command("compare", "trial:naive", "trial:pareto", "--store", str(store), "--metric", "f1")
    assert code == 0
    assert "60 questions in both, of 60 and 60; differences are pareto minus naive" in output
    (path,) = (store / "reports" / "compare").glob("*.parquet")
    rows = pq.read_table(path).to_pylist()
    assert len(rows) == 60
    difference = made.methods[0].differences["f1"]
    assert sum(row["b.f1"] - row["a.f1"] for row in rows) / 60 == pytest.approx(difference.mean_difference)
    assert path.with_suffix(".csv").read_text().count("\n") >= 61


# Methods that an index may not be able to serve


def test_an_optional_method_is_left_out_with_the_reason(store: Path) -> None:
    methods = {**TWO["methods"], "exact": {"variant": {"encode": {"context": "exact"}}}}
    settings = {**TWO, "optional": ["exact"], "methods": methods}
    made = report(store, settings)
    assert [method.name for method in made.methods] == ["pareto", "naive"]
    needed = "needs an index of the corpus of 'test' with encode.context=exact"
    assert needed in made.left_out["exact"]
    assert "exact was left out: " in "\n".join(failures(made))
    with pytest.raises(IndexMismatch, match=needed):
        report(store, {**settings, "optional": []})
    with pytest.raises(ConfigError, match=r"optional: 'naive' must be a method other than the baseline: pareto"):
        report(store, {**settings, "optional": ["naive"]})


# Pairs


def test_the_pairs_of_a_run_are_those_of_its_methods_with_the_settings(store: Path) -> None:
    refiner = {"max_tokens": [8, 16]}
    of_pairs = {
        "index": "test",
        "retrieve": {"retriever": "passage", "top_k": 3},
        "generate": FAKE,
        "score": {"metrics": ["f1", "compression", "tokens"]},
        "primary": "f1",
        "pairwise": {"refine.max_tokens": 16},
        "methods": {"cut": {"refine": refiner}, "mmr": {"refine": {"refiner": "mmr", **refiner}}, "all": {}},
    }
    made = report(store, of_pairs)
    [pair] = made.pairs
    one, other = made.methods[pair.one], made.methods[pair.other]
    assert (one.name, other.name) == ("cut max_tokens=16", "mmr max_tokens=16")
    means = [made.measures(method)["f1"].value or 0.0 for method in (one, other)]
    assert pair.difference.mean_difference == pytest.approx(means[0] - means[1])
    assert pair.difference.p_holm == pair.difference.p
    [line] = csv.DictReader((write_report(store, made).html.parent / "pairs.csv").read_text().splitlines())
    assert (line["method"], line["other"], line["metric"]) == (one.name, other.name, "f1")
