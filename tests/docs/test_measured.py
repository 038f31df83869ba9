"""What finished runs came to beside the papers' figures: written down once, and shown on the page of the papers."""

from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from docs import measured
from docs.papers import paper_sections
from tests.support.evaluating import evaluated
from tests.support.indexing import index
from vitalfew.configs.paper import Paper, papers
from vitalfew.flows.pipelines.experiments import evaluation, find

NAME = "paretorag/top_k"
FAKE = {"generator": "tests.support.fakes:FirstWords"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of an experiment, each on a corpus of its own, and a run of no paper's."""
    store = tmp_path_factory.mktemp("measured")
    for name, seed in (("towns", 3), ("mills", 4)):
        index(store, f"synthetic:passages=40,questions=6,seed={seed}", name=name, encode={"text": "unit"})
        for experiment in dict.fromkeys((NAME, "ten_contexts" if name == "towns" else NAME)):
            given = {"store": store, "index": name, "runner": "serial", "generate": FAKE, "questions": {"sample": 5}}
            with mock.patch("vitalfew.tasks.reports.plots.list.PLOTS", ()):  # figures are what is measured
                evaluated(evaluation(experiment, find(experiment)[1], given))
    return store


def command(store: Path, records: Path, *runs: str) -> list[measured.Measured]:
    import typer

    app = typer.Typer()
    app.command()(measured.main)
    arguments = [*runs, "--store", str(store), "--records", str(records), "--machine", "a test"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return measured.measured(records)


def test_every_corpus_gives_a_record_and_a_line_and_runs_of_no_paper_give_none(store: Path, tmp_path: Path) -> None:
    records = command(store, tmp_path / "papers.json")
    assert [each.corpus.partition(":")[0] for each in records] == ["mills", "towns"]
    assert {each.experiment for each in records} == {NAME}
    assert all(each.lines and each.n == 5 and str(store) not in each.model_dump_json() for each in records)
    assert command(store, tmp_path / "papers.json") == records, "the same runs again"
    page = "\n".join(paper_sections(papers().values(), {NAME: records}))
    for each in records:
        assert f"### {each.experiment} on {each.corpus.partition(':')[0]}" in page
        assert f"](#{NAME.replace('/', '')}-on-{each.corpus.partition(':')[0]}" in page
    tokens = next(line for line in records[0].lines if line.ours.metric == "prompt_tokens")
    assert (tokens.printed, tokens.low) == (0.4, None), "5 questions have no interval"
    assert f"| {tokens.what} | 0.40 × | {tokens.mean:.2f} × | too few questions | – |" in page


def test_the_page_gives_the_verdicts_of_today_on_the_numbers_of_then() -> None:
    ours = {"method": "a", "metric": "f1", "minus": "b"}
    gone = {"method": "c", "metric": "kept"}
    run = measured.Measured.model_validate(
        {"experiment": "p/e", "corpus": "towns", "models": [], "questions": "100 questions", "n": 100}
        | {"date": "2026-01-01", "commit": "1", "machine": "a test"}
        | {"lines": [{"ours": gone, "what": "kept", "printed": 7.8, "unit": "contexts", "mean": 3.9, "questions": 100},
                     {"ours": ours, "what": "old words", "mean": 0.05, "low": 0.01, "high": 0.09, "questions": 100}]}
    )  # fmt: skip
    assert measured.Measured.model_validate_json(run.model_dump_json(exclude_defaults=True)) == run

    def rows(**figure: object) -> list[str]:
        figures = [{"what": "new words", "printed": 8.0, "source": "text", "unit": "%", "ours": ours, **figure}]
        paper = Paper.model_validate({"paper": "P", "items": [{"what": "t", "experiments": ["p/e"]}],
                                      "experiments": {"p/e": {"figures": figures}}})  # fmt: skip
        page = list(paper_sections([paper], {"p/e": [run]}))
        return [line for line in page if line.startswith(("| t |", "| new words |", "| kept |"))]

    row = "| new words | +0.080 | +0.050 | +0.010 to +0.090 |"
    kept = "| kept | 7.8 | 3.9 | too few questions | – |"
    assert rows()[0].endswith("| – |")
    assert rows()[1:] == [f"{row} – |", kept]
    assert rows(claim="higher")[0].endswith("| 1 replicated |")
    assert rows(claim="higher")[1:] == [f"{row} replicated |", kept]
    assert rows(claim="lower")[1:] == [f"{row} contradicted |", kept]


def test_a_run_that_is_named_replaces_what_was_written_of_it(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "papers.json"
    (record,) = command(store, path, NAME)
    assert record.corpus.startswith("mills"), "the latest of that name"
    old = record.model_copy(update={"date": "2026-01-01", "lines": ()})
    measured.write([old], path)
    assert measured.measured(path) == [old]
    assert command(store, path, NAME) == [record]


def test_nothing_was_written_down_where_there_is_no_file(tmp_path: Path) -> None:
    assert measured.measured(tmp_path / "none.json") == []
