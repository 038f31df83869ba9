"""A session of reviews: the order, blinding, what every key keeps, the same texts; and what reports make of it."""

from collections.abc import Sequence
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
from vitalfew.storage.reviews import Review, add_reviews, read_reviews
from vitalfew.tasks.generators.base import Completion, Prompt
from vitalfew.tasks.report import read_report
from vitalfew.tasks.reports import labelled as labels
from vitalfew.tasks.reports.answers import MethodAnswers, same_text
from vitalfew.tasks.reports.contents import Labelled
from vitalfew.tasks.reports.reviewing import BACK, SKIP, ReviewItem, ReviewSession
from vitalfew.tasks.reports.runs import find_run
from vitalfew.tasks.reports.shown.markdown import markdown_report
from vitalfew.tasks.reports.statistics.prediction_powered import powered_differences, powered_means

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
        "hostile": {**NAIVE, "generate": {"generator": f"{__name__}:Hostile"}},
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


def current(own: ReviewSession) -> ReviewItem:
    assert own.current is not None
    return own.current


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


def test_skip_back_and_another_key(store: Path) -> None:
    own = session(store, "Ada", *PAIR)
    first, second = own.items[:2]
    assert own.press(BACK) == "This is the first one."
    assert own.press("x") == "That is not one of the keys."
    own.press(SKIP)
    assert (current(own), reviews(store)) == (second, [])
    own.press("=")
    own.press(BACK)
    own.press("2")
    assert [each.said for each in reviews(store)] == [second.answers[1].methods[0]]
    assert current(session(store, "Ada", *PAIR)) == first  # what was skipped is asked again


def test_answers_with_the_same_text_are_no_pair(store: Path) -> None:
    own = session(store, "Ada", "two", "naive")
    assert (own.items, own.current, own.press("1")) == ([], None, "")
    assert own.progress.alike == 45
    assert [same_text(text) for text in (" The  Mill.", "the mill")] == ["the mill"] * 2
    assert len({same_text(text) for text in ("5", "-5", ".5", "3.14", "314", "+5", "$5")}) == 7


def test_the_same_text_is_judged_once_for_all_methods(store: Path) -> None:
    own = session(store, "Ada", "naive", one=True)
    first = current(own)
    own.press("w", 3.0)
    both = session(store, "Ada", "naive", "two", "words", one=True)
    assert both.progress.reviewed == 1  # of both methods by now
    assert {each.method for each in reviews(store)} == {"naive", "two"}
    item = next(each for each in both.items if len(each.answers[0].methods) == 1)
    while current(both) != item:
        both.press("r", 2.0)
    kept = [each for each in reviews(store) if each.question_id == first.question_id]
    assert [(each.method, each.verdict, each.seconds) for each in kept[:2]] == [
        ("naive", "wrong", 3.0), ("two", "wrong", 0.0)
    ]  # fmt: skip


def test_labels_for_other_methods_stay_a_random_sample(store: Path) -> None:
    """Whoever opens a session and leaves gives a method no labels on those questions alone on which it agrees."""
    own = session(store, "Ada", "naive", one=True)
    while own.current:
        own.press("w")
    before = len(reviews(store))
    every = session(store, "Ada", "naive", "words", one=True)
    new = reviews(store)[before:]
    passed = every.items[: every.place - 1]
    assert {each.question_id for each in new} <= {item.question_id for item in passed}
    assert all(every.verdict(item) for item in passed)


def test_another_run_of_the_same_answers_has_the_reviews(store: Path) -> None:
    first = session(store, "Ada", *PAIR)
    first.press("1")
    said = reviews(store)[0].said
    run(store, {**SETTINGS, "judge": None, "primary": "f1"})
    again = session(store, "Ada", *PAIR)
    assert again.run.run_id != first.run.run_id
    assert (again.place, again.progress.reviewed) == (2, 1)
    again.press(BACK)
    again.press("=")
    assert [each.said for each in reviews(store)] == ["equal"]
    assert sum(labelled(store).pairs[0].verdicts) == 1
    assert [each.said for each in read_reviews(store, first.run.run_id)] == [said]


def test_a_verdict_of_another_session_stands_until_the_reviewer_goes_back(store: Path) -> None:
    one, other = session(store, "Ada", *PAIR), session(store, "Ada", *PAIR)
    one.press("1")
    said = other.press("2")
    assert "the first one stands" in said
    assert not any(name in said for name in PAIR)  # blinded
    assert len(reviews(store)) == 1
    assert other.place == 2
    other.press(BACK)
    other.press("=")
    assert [each.verdict for each in reviews(store)] == ["equal"]
    one.press(BACK)
    assert one.verdict(current(one)) == "equal"  # as the other session has said


@pytest.mark.parametrize(
    ("reviewer", "methods", "message"),
    [
        ("Ada", ["ranking", "naive"], "no method 'ranking' that answers; it has: naive; two; words; hostile"),
        ("=1+1", PAIR, "a reviewer must be a name"),
        ("a\x1b[2J", PAIR, "no control characters"),
    ],
)
def test_what_cannot_be_reviewed_is_named(store: Path, reviewer: str, methods: Sequence[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReviewSession(store, "trial", reviewer, methods)


def test_labels_correct_the_judge(store: Path) -> None:
    """Figures are those of the statistics, given the same labels: here those of the judge, some of them turned."""
    own = find_run(store, "trial")
    answers = {name: MethodAnswers(store, own, name) for name in PAIR}
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
    expected = powered_differences(judge["naive"], human["naive"], [judge["words"]], [human["words"]])[0]
    assert rows["words"].difference == expected
    assert rows["two"].share.both.mean is None  # without labels
    assert found.with_judge.items >= found.same_as_judge > 0
    assert found.on_answers.reviewers == 3
    shown = markdown_report(read_report(store, own)).replace("\\", "")
    assert "Right answers, by judge and people" in shown
    assert f"{found.methods[0].share.both.mean:.3f}" in shown


def test_preferences_count_same_answers_as_ties(store: Path) -> None:
    own = session(store, "Ada", *PAIR)
    words = [
        next(str(place) for place, each in enumerate(item.answers, 1) if "words" in each.methods) for item in own.items
    ]
    for number, key in enumerate(words):
        own.press("u" if number == 0 else "=" if number == 1 else key)
    (pair,) = labelled(store).pairs
    differing = len(own.items)
    assert (pair.one, pair.other, pair.alike, pair.differing) == ("words", "naive", 45 - differing, differing)
    assert pair.verdicts == (differing - 2, 1, 0)
    assert pair.unsure == 1
    mean = (differing - 2 + 0.5) / (differing - 1)
    assert pair.share.mean == pytest.approx((differing * mean + 0.5 * pair.alike) / 45)
    assert pair.share.low is not None
    assert pair.share.low > 0.5
    alike = sorted({*MethodAnswers(store, own.run, "naive").texts} - {item.question_id for item in own.items})
    add(store, "Bob", "words", dict.fromkeys(alike[:3], "second"), "naive")  # equal by definition
    assert labelled(store).pairs == (pair,)


def test_the_command(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["review", "trial", "--reviewer", "Ada", "--store", str(store)]
    pair = ["--method", "hostile", "--method", "naive"]

    def keys(pressed: str, *more: str) -> str:
        monkeypatch.setattr(out, "_width", 80)  # rich reads COLUMNS once, where the test's process has it
        done = CliRunner().invoke(app, [*given, *more], input="\n".join(pressed))
        assert done.exit_code == 0, done.output
        return done.output

    said = keys("gcz1=bu", *pair)
    assert "[bold]␛[2Jnot markup[/]" in said
    assert "\x1b" not in said
    assert "Contexts of 2: 3" in said
    assert "hostile against" not in said.partition("Reviewed now")[0]  # blinded
    assert "Reviewed now: 2. In all 2 of 45 by Ada, 43 left." in " ".join(said.split())
    assert f"vitalfew review trial --method hostile --method naive --reviewer Ada --store {store}" in said
    assert [each.verdict for each in reviews(store)][1] == "unsure"
    assert "Reviewed now: 3." in keys("rwrq" + "r" * 9, "--one")
    assert keys("q", "--one").count("3 reviewed") == 1
