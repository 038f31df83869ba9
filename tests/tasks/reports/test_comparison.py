"""Methods set against one another: baselines, intervals, seeds, variants of an index, paper and ours, two runs."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.support.evaluating import copied, evaluated
from tests.support.indexing import index
from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.paper import FOLDER, Paper, paper_of
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.experiments import evaluation, find, names
from vitalfew.storage.indexes.opened import IndexMismatch
from vitalfew.tasks.report import read_report, write_report
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.differences import opponents
from vitalfew.tasks.reports.papers import LEGEND, beside, conditions
from vitalfew.tasks.reports.shown import grids
from vitalfew.tasks.reports.shown.notes import asked, notes

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
    assert ours.value is not None
    assert theirs.value is not None
    assert difference.mean_difference == pytest.approx(ours.value - theirs.value)
    assert difference.questions == difference.better + difference.worse + difference.equal == ours.questions
    assert ours.low is not None
    assert ours.high is not None
    assert ours.low <= ours.value <= ours.high
    long = {(row["method"], row["metric"]): row for row in _long(store, made)}
    assert long["pareto", "passage_recall@5"]["p_holm"] == difference.p_holm
    assert long["naive", "passage_recall@5"]["difference"] is None


def _long(store: Path, made: Report) -> list[dict[str, Any]]:
    return pq.read_table(write_report(store, made).scores).to_pylist()


def test_an_experiment_has_one_primary_metric(store: Path) -> None:
    made = report(store)
    usual, other = made, report(store, primary="f1")
    assert (usual.primary, other.primary) == ("accuracy", "f1")
    ((of_usual, *_), (of_other, *_)) = (each.methods for each in (usual, other))
    for made, method in ((usual, of_usual), (other, of_other)):
        for metric, difference in method.differences.items():
            tested = 1 if metric == made.primary else len(method.differences)
            assert difference.p_holm is not None
            assert difference.p is not None
            assert difference.p <= difference.p_holm <= min(1, difference.p * tested)
    assert other.methods[0].differences["f1"].p_holm == other.methods[0].differences["f1"].p
    assert "over 1 method in F1, the primary metric, and over all" in "\n".join(notes(other))
    with pytest.raises(ConfigError, match=r"primary = mrr: it is not in score\.metrics; use one of: accuracy"):
        report(store, primary="mrr")


def test_few_questions_have_no_interval_and_are_told(store: Path) -> None:
    made = report(store, questions={"sample": 5})
    assert made.methods[0].differences["f1"].low is None
    code, output = command("report", "trial", "--store", str(store))
    assert code == 0
    assert "Too few questions to compare methods: 5" in output


def test_where_all_questions_were_asked_none_was_drawn(store: Path) -> None:
    assert "drawn with seed" in asked(report(store, questions={"sample": 5}))
    assert "drawn" not in asked(report(store, questions={"sample": 10_000}))


@pytest.mark.parametrize(("questions", "is_said"), [(12, True), (30, False)])
def test_below_thirty_questions_intervals_may_be_too_narrow(store: Path, questions: int, is_said: bool) -> None:
    made = report(store, questions={"sample": questions})
    assert made.methods[0].differences["f1"].low is not None
    said = "Intervals of differences by fewer than 30 questions may be too narrow."
    assert (said in "\n".join(notes(made))) is is_said


def test_of_a_grid_each_method_has_the_baseline_most_like_it(store: Path) -> None:
    made = report(store, retrieve={"top_k": [2, 4]})
    against = {method.name: method.against for method in made.methods}
    places = {method.name: place for place, method in enumerate(made.methods)}
    assert against["pareto top_k=2"] == places["naive top_k=2"]
    assert against["pareto top_k=4"] == places["naive top_k=4"]
    assert against["naive top_k=2"] is None


def test_only_settings_in_which_baselines_differ_choose_among_them() -> None:
    settings = [{"k": 1, "r": "p"}, {"k": 2, "r": "p"}, {"k": 2, "r": "c"}, {"k": 3, "r": "c"}]
    assert opponents(settings, [0, 1]) == [None, None, 1, 0]


def test_a_baseline_that_is_no_method_is_refused(store: Path) -> None:
    with pytest.raises(ConfigError, match="baseline 'nobody' is not the name of a method"):
        report(store, {**TWO, "baseline": "nobody"})


def test_seeds_are_one_method_their_mean(store: Path) -> None:
    single = report(store)
    made = report(store, generate={"seed": [1, 2, 3]})
    assert [(method.name, method.seeds) for method in made.methods] == [("pareto", (1, 2, 3)), ("naive", (1, 2, 3))]
    for method, alone in zip(made.methods, single.methods, strict=True):
        summary = method.summaries["f1"]
        assert summary.value == alone.summaries["f1"].value  # the same answers, whatever the seed
        assert summary.spread == 0
        assert method.differences.keys() == alone.differences.keys()
    assert "Means of 3 seeds (1, 2, 3)" in command("report", "trial", "--store", str(store))[1]


def test_a_sweep_tells_the_best_alpha_and_its_range(store: Path) -> None:
    alphas = [0.0, 0.5, 1.0]
    made = report(store, {**TWO, "methods": {**TWO["methods"], "pareto": {"retrieve": {"alpha": alphas}}}})
    (best,) = [each for each in made.best_alphas if each.metric == "passage_recall@5"]
    recalls = {m.settings["retrieve.alpha"]: m.summaries["passage_recall@5"].value for m in made.methods[:3]}
    assert recalls[best.alpha] == max(filter(None, recalls.values()))
    assert best.low <= best.alpha <= best.high
    assert {best.low, best.high} <= set(alphas)


# Variants of an index


def test_a_variant_is_found_by_its_settings_or_the_command_is_told(store: Path) -> None:
    variant = {**TWO, "methods": {**TWO["methods"], "pareto": {"variant": {"encode": {"context": "exact"}}}}}
    with pytest.raises(
        IndexMismatch, match=r"pareto needs an index of the corpus of 'test' with encode\.context=exact"
    ):
        report(store, variant)
    code, output = command(
        "evaluate", "paretorag/context_modes", "--index", "test", "--store", str(store), "--runner", "serial"
    )
    assert code == 1
    made = output[output.index("vitalfew index") :].split()[1:]
    assert "encode.context=late" in made
    assert "encode.encoder=tests.support.fakes:HashEncoder" in made  # as the index that was named
    assert command(*made[: made.index("--store") + 2], "--runner", "serial")[0] == 0
    index(store, CORPUS, name="elsewhere", encode={"context": "exact", "text": "unit"})
    index(store, "synthetic:passages=60,questions=10,seed=4", name="another-corpus", encode={"context": "exact"})
    found = report(store, variant)
    assert found.methods[0].settings["index"] == "elsewhere"
    assert [each.name for each in found.indexes] == ["elsewhere", "test"]
    with pytest.raises(ConfigError, match=r"unknown setting 'encode\.contxt'"):
        report(store, {**TWO, "variant": {"encode": {"contxt": "exact"}}})


def test_what_an_index_took_is_told_where_nothing_was_copied(store: Path) -> None:
    index(store, CORPUS, name="copied", encode={"context": "exact", "text": "unit"})
    index(store, CORPUS, name="own", encode={"units": ["sentence"], "reuse": False, "text": "unit"})
    made = report(
        store, {**TWO, "variant": {}, "methods": {"a": {"index": "copied"}, "b": {"index": "own"}}, "baseline": "a"}
    )
    copied, own = made.indexes
    assert copied.copied > 0
    assert own.copied == 0
    assert own.sentences == copied.sentences > own.passages
    assert "index_seconds" not in made.measures(made.methods[0])
    assert made.measures(made.methods[1])["index_seconds"].value == own.wall_seconds > 0


# Paper and ours

PAPER = Paper(
    paper="A paper",
    settings="elsewhere",
    experiments={
        "trial": {  # type: ignore[dict-item]
            "figures": [
                {
                    "what": what,
                    "printed": printed,
                    "source": "text",
                    "claim": claim,
                    "margin": margin,
                    "ours": {"method": "pareto", **ours},
                }
                for what, printed, claim, margin, ours in (
                    ("less", 0.9, "lower", 0, {"metric": "prompt_tokens", "over": "naive"}),
                    ("more", 0.5, "higher", 0, {"metric": "prompt_tokens", "minus": "naive"}),
                    ("no worse", 0.0, "higher", 1, {"metric": "f1", "minus": "naive"}),
                    ("plain", 0.5, None, 0, {"metric": "f1"}),
                    ("cost", 3, None, 0, {"metric": "stage_seconds", "over": "naive"}),
                    ("gone", 0.5, "higher", 0, {"metric": "f1", "minus": "nobody"}),
                )
            ],
            "deviations": ["Another corpus."],
        }
    },
)


def test_printed_figures_stand_beside_ours(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitalfew.tasks.report.paper_of", lambda experiment: PAPER)
    made = report(store, questions={"sample": 40})
    less, more, no_worse, plain, cost, gone = beside(made)
    tokens = [method.summaries["prompt_tokens"].value or 0 for method in made.methods]
    assert less.ours == f"{tokens[0] / tokens[1]:.2f} ×"
    assert less.verdict == "same direction"
    low, high = (float(end.strip(" ×")) for end in less.interval.split(" to "))
    assert low < tokens[0] / tokens[1] < high < 1
    assert more.verdict == "contradicted"
    assert more.interval.count("to") == 1
    assert no_worse.verdict == "no worse"
    assert plain.verdict == ""
    assert plain.interval.count("to") == 1
    assert cost.interval == "no interval: one measurement"
    assert (gone.ours, gone.interval, gone.verdict) == ("–", "–", "")
    assert grids.paper(made).caption == f"A paper: its printed figures beside ours. {LEGEND}"
    told = conditions(made)
    assert "40 questions" in told[0]
    assert "120 passages (test)" in told[0]
    assert "The questions are a sample, so the figures are estimates." in told
    assert "Another corpus." in told


@pytest.mark.parametrize("name", names())
def test_every_experiment_names_methods_that_it_has(name: str) -> None:
    settings = find(name)[1]
    made = evaluation(name, settings, {"index": "some"})
    assert isinstance(made, Evaluate)
    assert any(map(made.is_baseline, made.methods))
    methods = {method.name for method in made.methods}
    paper = paper_of(name)
    for each in paper.experiments[name].figures if paper and name in paper.experiments else ():
        assert {each.ours.method, each.ours.minus or each.ours.method, each.ours.over or each.ours.method} <= methods


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_every_repeated_experiment_is_there(name: str) -> None:
    paper = paper_of(f"{name}/any")
    assert paper
    assert paper.experiments.keys() <= set(names())


# Two runs


def test_methods_are_known_by_their_labels(store: Path, tmp_path: Path) -> None:
    report(store)
    label = "pareto (passage)"
    code, output = command("compare", "trial:naive", f"trial:{label}", "--store", str(store))
    assert code == 0, output
    assert "naive and pareto" in output
    ranking = ["export", "run", "trial", "--out", str(tmp_path / "out.run"), "--store", str(store)]
    for given, of in (([], "pareto"), (["--method", label], "pareto"), (["--method", "naive"], "naive")):
        code, output = command(*ranking, *given)
        assert code == 0, output
        assert f"the ranking of '{of}'" in output
    for unknown in ("pareto (exactly)", "naive RAG"):
        assert "known: pareto, naive" in command(*ranking, "--method", unknown)[1]
    file = tmp_path / "trial.yaml"
    file.write_text(json.dumps({**TWO, "methods": {**TWO["methods"], "naive, twice": {}}}))
    answered = ["answer", "Who?", "--index", "test", "--store", str(store), "--json", "--method"]
    code, output = command(*answered, f"{file}:{label}")
    assert code == 0, output
    assert "known: 'pareto', 'naive', 'naive, twice'" in command(*answered, f"{file}:nobody")[1]


def test_two_methods_of_a_run_are_compared_question_by_question(store: Path) -> None:
    made = report(store)
    code, output = command("compare", "trial:naive", "trial:pareto", "--store", str(store), "--metric", "f1")
    assert code == 0
    assert "60 questions in both, of 60 and 60; differences are pareto minus naive" in output
    assert "metric naive pareto difference" in output
    (path,) = (store / "reports" / "compare").glob("*.parquet")
    rows = pq.read_table(path).to_pylist()
    assert len(rows) == 60
    difference = made.methods[0].differences["f1"]
    assert sum(row["b.f1"] - row["a.f1"] for row in rows) / 60 == pytest.approx(difference.mean_difference)
    assert all(row["question"] and row["a.answer"] is not None for row in rows)
    assert path.with_suffix(".csv").read_text().count("\n") >= 61


def test_names_that_are_too_long_for_a_file_are_compared(store: Path) -> None:
    long = "検索" * 40
    report(store, {**TWO, "methods": {long: {}, f"{long}2": {"retrieve": {"alpha": 0.6}}}, "baseline": long})
    code, output = command("compare", f"trial:{long}", f"trial:{long}2", "--store", str(store))
    assert code == 0, output
    assert len([*(store / "reports" / "compare").glob("*.csv")]) == 1


def test_runs_are_compared_on_the_questions_they_share(store: Path) -> None:
    report(store, name="few", questions={"sample": 20})
    report(store, name="more", questions={"sample": 30}, retrieve={"top_k": 4})
    code, output = command("compare", "few", "more", "--store", str(store))
    assert code == 0
    assert output.count("20 questions in both, of 20 and 30;") == 2  # pareto with pareto, naive with naive
    assert "All questions:" in output


def test_what_cannot_be_compared_says_why(store: Path) -> None:
    ask = {"where": "question_id % 2 = 0"}, {"where": "question_id % 2 = 1"}
    for name, questions in zip(("even", "odd"), ask, strict=True):
        report(store, name=name, questions=questions)
    code, output = command("compare", "even", "odd", "--store", str(store))
    assert code == 1
    assert "share no question" in output
    assert "where question_id % 2 = 1" in output
    code, output = command("compare", "even", "even", "--store", str(store))
    assert code == 1
    assert "name the methods to compare" in output
    code, output = command("compare", "even:pareto", "odd:nobody", "--store", str(store))
    assert code == 1
    assert "has no method 'nobody'; it has: pareto, naive" in output
    code, output = command("compare", "even:pareto", "even:naive", "--store", str(store), "--metric", "colour")
    assert code == 1
    assert "no metric 'colour'" in output


# Methods that an index may not be able to serve


def test_an_optional_method_is_left_out_with_the_reason(store: Path) -> None:
    settings = {
        **TWO,
        "optional": ["hybrid", "exact"],
        "methods": {
            **TWO["methods"],
            "hybrid": {"retrieve": {"retriever": "hybrid", "alpha": [0.2, 0.6]}},
            "exact": {"variant": {"encode": {"context": "exact"}}},
        },
    }
    made = report(store, settings)
    assert [method.name for method in made.methods] == ["pareto", "naive", "hybrid alpha=0.2", "hybrid alpha=0.6"]
    assert "needs an index of the corpus of 'test' with encode.context=exact" in made.left_out["exact"]
    index(store, CORPUS, name="bare", encode={"context": "passage", "text": "unit"})
    made = report(store, settings, index="bare")
    assert [method.name for method in made.methods] == ["pareto", "naive"]
    assert "hybrid alpha=0.2 was left out: index 'bare' has no BM25; run its `vitalfew index`" in "\n".join(notes(made))
    with pytest.raises(IndexMismatch, match="has no BM25"):
        report(store, {**settings, "optional": ["exact"]}, index="bare")
    for wrong in ("naive", "nobody"):
        with pytest.raises(ConfigError, match=rf"optional: '{wrong}' must be a method other than the baseline: pareto"):
            report(store, {**settings, "optional": [wrong]})
