"""A session of reviews: the order, blinding, what every key keeps, the same texts; what reports make of it; reviews as
CSV and read back, and lines that are of no answer."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.support.evaluating import copied, run, searchable
from tests.support.fakes import FirstWords
from tests.support.shared import shared
from vitalfew.configs.evaluation import Evaluate
from vitalfew.flows.cli.main import app
from vitalfew.flows.cli.terminal import out
from vitalfew.storage.catalog.database import query
from vitalfew.storage.reviews import Review, add_reviews, read_reviews
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.generators.base import Completion, Prompt
from vitalfew.tasks.report import read_report
from vitalfew.tasks.reports import labelled as labels
from vitalfew.tasks.reports.answers import MethodAnswers
from vitalfew.tasks.reports.contents import Labelled
from vitalfew.tasks.reports.reviewed import ImportedReviews, export_reviews, import_reviews
from vitalfew.tasks.reports.reviewing import BACK, ReviewSession
from vitalfew.tasks.reports.runs import find_run
from vitalfew.tasks.reports.shown.markdown import markdown_report
from vitalfew.tasks.reports.statistics.prediction_powered import powered_difference, powered_means

HEAD = "reviewer,run_id,question_id,method,other,verdict,seconds"
HOSTILE = "[bold]\x1b[2Jnot markup[/]\x07"


class Hostile(FirstWords):
    """A generator whose answers would command a terminal."""

    def _answer(self, prompt: Prompt) -> Completion:
        return Completion(HOSTILE, 1, 1, 0.0)


NAIVE = {"retrieve": {"retriever": "passage", "top_k": 3}}
SETTINGS: dict[str, Any] = {
    "index": "test",
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "judge": {"engine": "tests.tasks.raters.test_verdicts:Obedient", "model": "plain"},
    "methods": {
        "naive": NAIVE,
        "two": {"retrieve": {"retriever": "passage", "top_k": 2}},  # the same first context, and so the same answers
        "words": {"retrieve": {"retriever": "bm25", "top_k": 3}},
        "=hostile": {**NAIVE, "generate": {"generator": f"{__name__}:Hostile"}},
        "ranking": {**NAIVE, "generate": None},
    },
}
PAIR = ("words", "naive")


def _evaluate(store: Path) -> None:
    copied(searchable(), store)
    run(store, SETTINGS)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copied(shared("to-review", _evaluate), tmp_path / "store")


def session(store: Path, reviewer: str = "Ada", *methods: str, one: bool = False) -> ReviewSession:
    return ReviewSession(store, "trial", reviewer, methods, one)


def reviews(store: Path) -> list[Review]:
    return read_reviews(store, find_run(store, "trial").run_id)


def add(store: Path, reviewer: str, method: str, verdicts: dict[int, str], other: str | None = None) -> None:
    run_id = find_run(store, "trial").run_id
    moment = datetime(2026, 11, 27, tzinfo=UTC)
    rows = [Review(reviewer, moment, run_id, number, method, other, said, None) for number, said in verdicts.items()]
    add_reviews(store, run_id, rows)


def labelled(store: Path) -> Labelled:
    own = find_run(store, "trial")
    found = labels.labelled(store, own, Evaluate.model_validate(own.config))
    assert found is not None
    return found


def test_the_order_is_random_and_shared_and_the_places_of_answers_are_not(store: Path) -> None:
    ada, bob = session(store, "Ada", *PAIR), session(store, "Bob", *PAIR)
    numbers = [item.question_id for item in ada.items]
    assert numbers == [item.question_id for item in bob.items]
    rises = sum(one < other for one, other in pairwise(numbers))
    assert 0.25 < rises / len(numbers) < 0.75  # in no order of ids
    firsts = [[item.answers[0].methods[0] for item in each.items] for each in (ada, bob)]
    assert all(set(own) == {*PAIR} for own in firsts)
    assert firsts[0] != firsts[1]
    assert firsts[0] == [item.answers[0].methods[0] for item in session(store, "Ada", *PAIR).items]


def test_a_verdict_is_kept_at_once_and_unblinded(store: Path) -> None:
    own = session(store, "Ada", *PAIR)
    shown, keys = own.items[:4], ["1", "2", "=", "u"]
    for place, key in enumerate(keys, start=1):
        assert own.press(key, 1.5) == ""
        assert len(reviews(store)) == place
    better = [shown[0].answers[0].methods[0], shown[1].answers[1].methods[0]]
    assert [each.said for each in reviews(store)] == [*better, "equal", "unsure"]
    assert {(each.method, each.other, each.seconds) for each in reviews(store)} == {(*PAIR, 1.5)}
    again = session(store, "Ada", *PAIR)
    assert (again.place, again.progress.reviewed, again.progress.given) == (5, 4, 0)
    assert session(store, "Ada", *reversed(PAIR)).progress.reviewed == 4  # the same pair
    assert session(store, "Bob", *PAIR).place == 1


def test_the_same_text_is_judged_once_for_all_methods(store: Path) -> None:
    own = session(store, "Ada", "naive", one=True)
    number = own.items[0].question_id
    own.press("w", 3.0)
    both = session(store, "Ada", "naive", "two", "words", one=True)
    assert both.progress.reviewed == 1  # of both methods by now
    kept = [(each.question_id, each.method, each.verdict, each.seconds) for each in reviews(store)]
    assert kept == [(number, "naive", "wrong", 3.0), (number, "two", "wrong", 0.0)]  # the time is that of the text


def test_a_verdict_of_another_session_stands_until_the_reviewer_goes_back(store: Path) -> None:
    one, other = session(store, "Ada", *PAIR), session(store, "Ada", *PAIR)
    one.press("1")
    said = other.press("2")
    assert "the first one stands" in said
    assert not any(name in said for name in PAIR)  # blinded
    assert (len(reviews(store)), other.place) == (1, 2)
    other.press(BACK)
    other.press("=")
    assert [each.verdict for each in reviews(store)] == ["equal"]
    one.press(BACK)
    assert one.verdict(one.items[0]) == "equal"  # as the other session has said


def test_labels_correct_the_judge(store: Path) -> None:
    """Figures are those of the statistics, given the same labels: here those of the judge, some of them turned."""
    own = find_run(store, "trial")
    answers = {name: MethodAnswers.of(store, own, name, [name]) for name in PAIR}
    ids = sorted(answers["naive"].texts)
    judge = {name: np.array([each.verdicts("correct")[number] for number in ids]) for name, each in answers.items()}
    human = {name: np.full(len(ids), np.nan) for name in PAIR}
    for name in PAIR:
        human[name][:30] = judge[name][:30]
        human[name][:3] = 1
        said = {number: "right" if value else "wrong" for number, value in zip(ids[:30], human[name][:30], strict=True)}
        add(store, "Ada", name, {**said, ids[30]: "unsure"})
        add(store, "Bob", name, {ids[31]: "right", ids[0]: "right"})
        add(store, "Eve", name, {ids[31]: "wrong"})
    found = labelled(store)
    rows = {each.name: each for each in found.methods}
    for name in PAIR:
        assert rows[name].share == powered_means([judge[name]], [human[name]])[0]
        assert (rows[name].unsure, rows[name].split, rows[name].answers) == (1, 1, 45)
    expected = powered_difference(judge["naive"], human["naive"], judge["words"], human["words"])
    assert rows["words"].difference == expected
    assert rows["two"].share.both.mean is None  # without labels
    assert (found.on_answers.reviewers, found.with_judge.items >= found.same_as_judge > 0) == (3, True)
    assert "Right answers, by judge and people" in markdown_report(read_report(store, own))


def test_preferences_count_same_answers_as_ties(store: Path) -> None:
    own = session(store, "Ada", *PAIR)
    for number, item in enumerate(own.items):
        of_words = next(str(place) for place, each in enumerate(item.answers, 1) if "words" in each.methods)
        own.press("u" if number == 0 else "=" if number == 1 else of_words)
    (pair,) = labelled(store).pairs
    differing = len(own.items)
    assert (pair.one, pair.other, pair.alike, pair.differing) == ("words", "naive", 45 - differing, differing)
    assert (pair.verdicts, pair.unsure) == ((differing - 2, 1, 0), 1)
    mean = (differing - 2 + 0.5) / (differing - 1)
    assert pair.share.mean == pytest.approx((differing * mean + 0.5 * pair.alike) / 45)
    assert (pair.share.low or 0) > 0.5
    alike = sorted(
        {*MethodAnswers.of(store, own.run, "naive", ["naive"]).texts} - {item.question_id for item in own.items}
    )
    add(store, "Bob", "words", dict.fromkeys(alike[:3], "second"), "naive")  # equal by definition
    assert labelled(store).pairs == (pair,)


def test_the_command(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--reviewer", "Ada", "--store", str(store)]

    def keys(pressed: str, *more: str) -> str:
        monkeypatch.setattr(out, "_width", 80)  # rich reads COLUMNS once, where the test's process has it
        done = CliRunner().invoke(app, ["review", *more, *given], input="\n".join(pressed))
        assert done.exit_code == 0, done.output
        return done.output

    said = keys("gcz1=bu", "trial:=hostile", "trial:naive")
    assert "[bold]␛[2Jnot markup[/]" in said
    assert "\x1b" not in said
    assert "Contexts of 2: 3" in said
    assert "=hostile against" not in said.partition("Reviewed now")[0]  # blinded
    assert "Reviewed now: 2. In all 2 of 45 by Ada, 43 left." in " ".join(said.split())
    assert f"vitalfew review trial:=hostile trial:naive --reviewer Ada --store {store}" in said
    assert [each.verdict for each in reviews(store)][1] == "unsure"
    assert "Reviewed now: 3." in keys("rwrq" + "r" * 9, "trial", "--one")
    assert keys("q", "trial", "--one").count("3 reviewed") == 1


# Reviews in a table and in CSV


def asked(store: Path) -> tuple[str, list[int]]:
    """The run's id and its questions."""
    run = find_run(store, "trial")
    return run.run_id, sorted(MethodAnswers.of(store, run, "naive", ["naive"]).texts)


def review_of(store: Path, place: int = 0, **given: Any) -> Review:
    run_id, questions = asked(store)
    moment = datetime(2026, 11, 26, 14, 30, tzinfo=UTC)
    return replace(Review("Ada", moment, run_id, questions[place], "naive", "=hostile", "first", 2.5), **given)


def written(path: Path, *lines: str, head: str = HEAD) -> Path:
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def test_reviews_are_a_table_and_come_back_from_csv(store: Path, tmp_path: Path) -> None:
    of_one = review_of(store, 2, other=None, verdict="wrong", seconds=None)
    reviews = [first := review_of(store), review_of(store, 1, verdict="equal"), of_one]
    assert add_reviews(store, first.run_id, reviews) == 3
    rows = query(store, 'SELECT reviewer, method, other, verdict, seconds FROM reviews ORDER BY "verdict"').fetchall()
    assert rows == [
        ("Ada", "naive", other, verdict, seconds)
        for other, verdict, seconds in (("=hostile", "equal", 2.5), ("=hostile", "first", 2.5), (None, "wrong", None))
    ]
    assert export_reviews(store, "trial", tmp_path / "reviews.csv") == 3
    assert "'=hostile" in (tmp_path / "reviews.csv").read_text()  # a spreadsheet computes no name
    assert import_reviews(store, tmp_path / "reviews.csv") == ImportedReviews(new=0, known=3)
    (store / "reviews" / first.run_id / "00000.parquet").unlink()
    assert import_reviews(store, tmp_path / "reviews.csv") == ImportedReviews(new=3, known=0)
    assert read_reviews(store, first.run_id) == reviews


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Ada,RUN,Q,naive,=hostile,first,3", "line 3: Ada reviews the same as in line 2: keep one of the two"),
        ("Bob,RUN,7,naive,=hostile,first,3", "line 3: 'naive' of run RUN has no answer to question 7"),
        ("Bob,gone,Q,naive,=hostile,first,3", "line 3: this store has no evaluation 'gone'"),
        ("Bob,RUN,Q,naive", "line 3: it cannot be read: 4 fields instead of 7"),
    ],
)
def test_a_line_that_cannot_be_is_named_and_nothing_is_kept(
    store: Path, tmp_path: Path, line: str, message: str
) -> None:
    run_id, (question, *_) = asked(store)
    lines = ["Ada,RUN,Q,naive,=hostile,first,", line]
    lines = [each.replace("RUN", run_id).replace("Q", str(question)) for each in lines]
    with pytest.raises(InputError, match=message.replace("RUN", run_id)):
        import_reviews(store, written(tmp_path / "reviews.csv", *lines))
    assert read_reviews(store, run_id) == []
