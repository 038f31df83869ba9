"""Reviews: kept once, replaced only on request, written as CSV and read back, and lines that are of no answer."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.evaluating import copied, run
from tests.support.indexing import index
from vitalfew.flows.cli.main import app
from vitalfew.storage.catalog.database import query
from vitalfew.storage.reviews import Review, ReviewedOtherwise, add_reviews, read_reviews
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.reports.reviewed import ImportedReviews, export_reviews, import_reviews
from vitalfew.tasks.reports.runs import find_run, read_rows

SETTINGS: dict[str, Any] = {
    "index": "test",
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "methods": {
        "none": {"retrieve": None},
        "=naive": {"retrieve": {"retriever": "passage", "top_k": 3}},
        "ranking": {"retrieve": {"retriever": "passage", "top_k": 3}, "generate": None},
    },
}
HEAD = "reviewer,run_id,question_id,method,other,verdict,seconds"


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("reviewed") / "store"
    index(store, "synthetic:passages=50,questions=5,seed=3")
    run(store, SETTINGS)
    return store


@pytest.fixture
def store(evaluated: Path, tmp_path: Path) -> Path:
    return copied(evaluated, tmp_path / "store")


def asked(store: Path) -> tuple[str, list[int]]:
    """The run's id and its questions."""
    run = find_run(store, "trial")
    return run.run_id, read_rows(store, run, "none", "candidates")["question_id"].sort().to_list()


def review(store: Path, place: int = 0, **given: Any) -> Review:
    run_id, questions = asked(store)
    moment = datetime(2026, 11, 26, 14, 30, tzinfo=UTC)
    return replace(Review("Ada", moment, run_id, questions[place], "none", "=naive", "first", 2.5), **given)


def written(path: Path, *lines: str, head: str = HEAD) -> Path:
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def test_reviews_are_a_table_and_come_back_from_csv(store: Path, tmp_path: Path) -> None:
    first = review(store)
    reviews = [first, review(store, 1, verdict="equal"), review(store, 2, other=None, verdict="wrong", seconds=None)]
    assert add_reviews(store, first.run_id, reviews) == 3
    rows = query(store, 'SELECT reviewer, method, other, verdict, seconds FROM reviews ORDER BY "verdict"').fetchall()
    assert rows == [
        ("Ada", "none", "=naive", "equal", 2.5),
        ("Ada", "none", "=naive", "first", 2.5),
        ("Ada", "none", None, "wrong", None),
    ]
    assert export_reviews(store, "trial", tmp_path / "reviews.csv") == 3
    assert "'=naive" in (tmp_path / "reviews.csv").read_text()  # a spreadsheet computes no name
    assert import_reviews(store, tmp_path / "reviews.csv") == ImportedReviews(new=0, known=3)
    other = copied(store, tmp_path / "other")
    (other / "reviews" / first.run_id / "00000.parquet").unlink()
    assert import_reviews(other, tmp_path / "reviews.csv") == ImportedReviews(new=3, known=0)
    assert read_reviews(other, first.run_id) == read_reviews(store, first.run_id) == reviews


def test_a_reviewer_has_one_verdict_and_the_order_of_methods_does_not_count(store: Path) -> None:
    first = review(store)
    turned = replace(first, method="=naive", other="none", verdict="second")
    assert add_reviews(store, first.run_id, [first]) == 1
    assert add_reviews(store, first.run_id, [turned, replace(first, reviewer="Bob", verdict="equal")]) == 1
    with pytest.raises(ReviewedOtherwise, match=r"Ada has said 'none' of question .* on 2026-11-26, and now '=naive'"):
        add_reviews(store, first.run_id, [review(store, 1), replace(first, verdict="second")])
    assert len(read_reviews(store, first.run_id)) == 2  # nothing was kept
    assert add_reviews(store, first.run_id, [replace(first, verdict="second")], replace=True) == 1
    assert [each.verdict for each in read_reviews(store, first.run_id)] == ["second", "equal"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Ada,RUN,Q,none,=naive,first,3", "line 3: Ada reviews the same as in line 2: keep one of the two"),
        ("Bob,RUN,7,none,=naive,first,3", "line 3: 'none' of run RUN has no answer to question 7"),
        ("Bob,gone,Q,none,=naive,first,3", "line 3: this store has no evaluation 'gone'"),
        ("Bob,RUN,Q,none,ranking,first,3", "line 3: run RUN has no method 'ranking' that answers; it has none, =naive"),
        ("Bob,RUN,Q,none,=naive,right,3", "two answers is first, second, equal or unsure, got 'right'"),
        ("Bob,RUN,Q,none", "line 3: it cannot be read: 4 fields instead of 7"),
    ],
)
def test_a_line_that_cannot_be_is_named_and_nothing_is_kept(
    evaluated: Path, tmp_path: Path, line: str, message: str
) -> None:
    run_id, (question, *_) = asked(evaluated)
    lines = [each.replace("RUN", run_id).replace("Q", str(question)) for each in ("Ada,RUN,Q,none,=naive,first,", line)]
    with pytest.raises(InputError, match=message.replace("RUN", run_id)):
        import_reviews(evaluated, written(tmp_path / "reviews.csv", *lines))
    assert read_reviews(evaluated, run_id) == []


def test_answers_that_were_removed_take_no_labels_and_keep_those_they_have(store: Path, tmp_path: Path) -> None:
    first = review(store)
    add_reviews(store, first.run_id, [first])
    export_reviews(store, "trial", tmp_path / "reviews.csv")
    for manifest in (store / "candidates").glob("*/manifest.json"):
        manifest.unlink()
    with pytest.raises(InputError, match="line 2: the answers of 'none' no longer exist"):
        import_reviews(store, tmp_path / "reviews.csv")
    assert query(store, "SELECT verdict FROM reviews").fetchall() == [("first",)]


def test_the_commands_say_how_many_reviews_there_are(store: Path, tmp_path: Path) -> None:
    run_id, (question, *_) = asked(store)
    path = written(tmp_path / "reviews.csv", f"Ada,{run_id},{question},none,,right,4")
    for said in ("New reviews: 1; there already: 0", "New reviews: 0; there already: 1"):
        result = CliRunner().invoke(app, ["review", "import", str(path), "--store", str(store)])
        assert (result.exit_code, said in result.output) == (0, True)
    out = tmp_path / "out.csv"
    result = CliRunner().invoke(app, ["review", "export", "trial", "--out", str(out), "--store", str(store)])
    assert result.exit_code == 0
    assert "Ada,2026" in out.read_text().replace('"', "")
    path = written(tmp_path / "new.csv", f"Ada,{run_id},{question},none,,unsure,4")
    result = CliRunner().invoke(app, ["review", "import", str(path), "--store", str(store)])
    assert (result.exit_code, "give --replace" in result.output) == (1, True)
