"""What finished runs came to beside the papers' figures: written down once, and shown on the page of the papers."""

from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from docs import measured
from docs.papers import paper_sections
from tests.support.evaluating import evaluated
from tests.support.indexing import index
from vitalfew.configs.paper import papers
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
    tokens = next(line for line in records[0].lines if line.printed == "0.40 ×")
    assert f"| {tokens.what} | 0.40 × | {tokens.ours} |" in page


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
