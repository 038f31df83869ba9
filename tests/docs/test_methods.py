"""All methods on all corpora: recorded from finished runs, and shown in docs/results/index.md and the README."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from docs import methods
from docs.methods import NAIVE, Compared, compared
from docs.results_index import figure, method_lines
from tests.support.documents import ROOT
from tests.support.evaluating import CORPUS, copied, evaluated, parameters, searchable
from tests.support.indexing import index
from vitalfew.configs.loading import merged
from vitalfew.storage.indexes.opened import IndexMismatch
from vitalfew.tasks.reports.runs import find_run

SETTINGS: dict[str, Any] = {
    "index": "test",
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "retrieve": {"retriever": "passage", "top_k": 5},
    "refine": {"max_tokens": [60, 120, 300]},
    "score": {"metrics": ["f1", "tokens"]},
    "primary": "context_tokens",
    "baseline": "sentences",
    "optional": ["exact"],
    "methods": {
        "sentences": {"retrieve": {"retriever": "core_context", "top_k": 20}},
        "naive RAG": {},
        "one passage": {"retrieve": {"top_k": 1}, "refine": {"max_tokens": None}},
        "five passages": {"refine": {"max_tokens": None}},
        "exact": {"variant": {"encode": {"context": "exact"}}, "retrieve": {"retriever": "core_context"}},
    },
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = copied(searchable(), tmp_path_factory.mktemp("methods") / "store")
    evaluated(parameters(store, SETTINGS))
    return store


def command(store: Path, records: Path, *arguments: str) -> str:
    app = typer.Typer()
    app.command()(methods.main)
    fixed = ["trial", "--store", str(store), "--records", str(records), "--machine", "a test", "--command", "a command"]
    result = CliRunner().invoke(app, [*fixed, *arguments])
    if isinstance(result.exception, LookupError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def record(**given: object) -> Compared:
    usual = {"corpus": "SQuAD", "answerer": "reader", "method": "spans", "budget": 120, "metric": "accuracy"}
    usual |= {"mean": 0.5, "tokens": 118.2, "questions": 50, "against": 120, "experiment": "all_methods"}
    usual |= {"date": "2026-01-02", "commit": "c0ffee", "machine": "a machine", "command": "a command"}
    return Compared.model_validate({**usual, **given})


def test_a_run_gives_a_record_for_every_method_and_budget_of_the_page(store: Path, tmp_path: Path) -> None:
    assert "test, tests.support.fakes:FirstWords: 6 records, 45 questions" in command(store, tmp_path / "methods.json")
    found = {(each.method, each.budget): each for each in compared(tmp_path / "methods.json")}
    assert found.keys() == {*((name, own) for name in ("sentences", NAIVE) for own in (120, 300)),
                            ("one passage", None), ("five passages", None)}  # fmt: skip
    naive, ours = found[NAIVE, 120], found["sentences", 120]
    assert (naive.minus, naive.against, ours.metric) == (None, 120, "context_tokens")
    assert ours.minus == pytest.approx(ours.mean - naive.mean, abs=2e-6)
    assert ours.low is not None
    assert ours.high is not None
    assert ours.low < ours.minus < ours.high
    assert ours.tokens <= 120
    one, five = found["one passage", None], found["five passages", None]
    assert (one.tokens < 120, one.against) == (True, 120), "the lowest budget that is not below its length"
    assert five.against == (120 if five.tokens <= 120 else 300)


def test_a_later_record_of_the_same_key_replaces_an_earlier_one(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "methods.json"
    old = [record(method="sentences", corpus="towns", answerer="tests.support.fakes:FirstWords", mean=9.0), record()]
    methods.write(old, path)
    command(store, path, "--corpus", "towns")
    read = compared(path)
    assert (len(read), sum(each.corpus == "towns" for each in read)) == (7, 6)
    assert not any(each.mean == 9.0 for each in read)
    assert methods.compared(tmp_path / "none.json") == []


def test_a_run_without_naive_rag_at_these_budgets_is_refused(store: Path, tmp_path: Path) -> None:
    own = copied(store, tmp_path / "store")
    evaluated(parameters(own, merged(SETTINGS, {"refine": {"max_tokens": [60]}})))
    with pytest.raises(LookupError, match="has no method 'naive RAG' with a budget of 120 or 300 tokens"):
        command(own, tmp_path / "methods.json")


def test_the_tables_of_the_page() -> None:
    better = {"minus": 0.0724, "low": 0.026, "high": 0.118}
    records = [
        record(method=NAIVE, mean=0.44),
        record(mean=0.5124, **better),
        record(method="Oreo", budget=None, tokens=63.7, mean=0.4, minus=-0.04, low=-0.0804, high=-0.001),
        record(method="Oreo", budget=None, corpus="Celery", questions=20, mean=0.4, minus=0.0, low=-0.1, high=0.1),
        record(method=NAIVE, corpus="Celery", questions=25, mean=0.4),
        record(method="CXMI", corpus="QMSum", metric="sp_recall", answerer="nobody", minus=0.01, low=-0.1, high=0.1),
        record(method="another", answerer="a-model", minus=0.01),
    ]
    page = list(method_lines(records))
    said = page.index("### Answered by the bundled reader")
    assert page[said + 11].startswith("Not run with this answerer so far: ParetoRAG, ParetoRAG exact, hybrid sentences")
    assert page[said + 2 : said + 11] + page[said + 13 : said + 14] == [
        "**120 tokens.** Ahead of naive RAG, the whole interval above zero: spans on 1 of 1 corpora. Behind it, the "
        "whole interval below zero: Oreo on SQuAD. Neither on any corpus: CXMI.",
        "",
        "| method | SQuAD (50) | Celery (25) | QMSum, facts shown (50) |",
        "|---|---|---|---|",
        "| naive RAG | 0.440 | 0.400 | – |",
        "| spans | 0.512, **+0.072 (+0.026 to +0.118)** | – | – |",
        "| CXMI † | – | – | 0.500, +0.010 (-0.100 to +0.100) |",
        "| Oreo † | 0.400 (64 tokens), **-0.040 (-0.080 to -0.001)** | "
        "0.400 (118 tokens, n = 20), +0.000 (-0.100 to +0.100) | – |",
        "",
        "*`a command` · a machine · 2026-01-02 · c0ffee* (SQuAD, Celery, QMSum)  ",
    ]
    assert page[-6] == "| another | 0.500, +0.010 |", "too few questions for an interval"
    assert "### Answered by a-model" in page
    assert list(method_lines([])) == []


def test_the_rows_of_the_readme_are_those_of_the_records() -> None:
    """A table with a row a method and a column a corpus, "SQuAD (1,316)"; the cells as on the page."""
    known = {(each.corpus, each.method, each.budget): each for each in compared() if each.answerer == "reader"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| \d+ tokens \|.*\n\|[-|]*\n(?:\|.*\n)+", readme, re.MULTILINE)
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    budget = int(heads[0].removesuffix(" tokens"))
    corpora = [re.fullmatch(r"(.*) \(([\d,]+)\)", head) for head in heads[1:]]
    asked = [(found[1], int(found[2].replace(",", ""))) for found in corpora if found]
    for method, *cells in rows:
        assert cells == [figure(known.get((corpus, method, budget)), number) for corpus, number in asked]
    assert {"ParetoRAG", "spans"} <= {method for method, *_ in rows}


def test_a_method_whose_index_is_not_there_may_be_optional(store: Path, tmp_path: Path) -> None:
    run = find_run(store, "trial")
    assert not any(name.startswith("exact") for name in run.methods)
    reason = "needs an index of the corpus of 'test' with encode.context=exact"
    assert reason in run.config["left_out"]["exact max_tokens=120"]
    own = copied(store, tmp_path / "store")
    with pytest.raises(IndexMismatch, match=reason):
        evaluated(parameters(own, {**SETTINGS, "optional": []}))
    index(own, CORPUS, name="other", encode={"context": "exact"})
    settings = {name: SETTINGS["methods"][name] for name in ("sentences", "exact")}
    assert "exact" in evaluated(parameters(own, {**SETTINGS, "methods": settings, "refine": {}})).methods
