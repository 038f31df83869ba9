"""The trainer `cxmi`: how it labels, that it learns, and what it leaves."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import tiny_models
from tests.support.readers import hardly_learnt
from tests.support.shared import shared
from tests.support.training import Interrupted, opened, train_stage, write_weights
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching
from vitalfew.storage.artifacts import FIGURES
from vitalfew.tasks.generators.reader import Reader, Told
from vitalfew.tasks.models.small.sentence_filter import SentenceFilter
from vitalfew.tasks.models.small.tuned import ADAPTER, SETTINGS
from vitalfew.tasks.trainers.card import HELD_OUT, RECIPE
from vitalfew.tasks.trainers.cxmi import CxmiTrainer, drawn
from vitalfew.tasks.trainers.cxmi_labels import (
    CausalLikelihood,
    Judged,
    ReaderLikelihood,
    best_threshold,
    cxmi,
    figures,
    gold,
)

FP32 = Batching(device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def place() -> Path:
    """A file of questions, and a reader that has hardly learnt them."""
    return shared("reader-of-towns", hardly_learnt)


@pytest.fixture(scope="module")
def settings(place: Path) -> dict[str, object]:
    # A reader that has learnt nothing says little for any text: the best sentence counts, whatever its CXMI.
    return {"trainer": "cxmi", "reader": str(place / "reader"), "learning_rate": 1e-2, "least": -1e9,
        "epochs": 2, "checkpoint_every": 2}  # fmt: skip


@pytest.fixture(scope="module")
def whole(settings: dict[str, object], place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights of a training that nothing disturbed."""
    stage = train_stage(tmp_path_factory.mktemp("whole"), place / "towns.json", **settings)
    stage.run("test")
    return stage.artifact.directory / "weights"


# --- labels


def known(told: Sequence[Told]) -> list[float]:
    """log p: of any question 1/8 without a text, 1/2 and 1/16 with two texts, none with another."""
    of = {"": 1 / 8, "a": 1 / 2, "b": 1 / 16, "c": 0.0}
    return [math.log(of[one.text]) if of[one.text] else -math.inf for one in told]


def test_cxmi_is_what_a_sentence_adds_to_the_likelihood() -> None:
    asked = [("Who?", ("Ada",)), ("Where?", ("Ouse",))]
    assert cxmi(known, asked, [["a", "b", "c"], ["b"]]) == [
        [pytest.approx(math.log(4)), pytest.approx(-math.log(2)), -math.inf],
        [pytest.approx(-math.log(2))],
    ]


def test_the_gold_context_is_the_first_of_the_largest_above_the_least() -> None:
    assert gold([0.5, 2.0, 2.0]) == 1
    assert gold([-0.1, 0.0, -math.inf]) is None
    assert gold([-0.1, -2.0], least=-1.0) == 0
    assert gold([]) is None


def test_the_reader_needs_the_answer_in_the_text(place: Path) -> None:
    score = ReaderLikelihood(Reader(Reader.Options(model=str(place / "reader"), precision="fp32")))
    question, answers = "When was the mill built?", ("1700",)
    texts = ["", "The mill was built in 1700.", "It lies on a river.", ""]
    told = score([Told(question, text, answers) for text in texts])
    assert told[0] == told[3] < 0
    assert math.isfinite(told[1])
    assert told[2] == -math.inf
    assert score([]) == []


def test_a_language_model_says_how_likely_the_first_answer_is(tmp_path: Path) -> None:
    score = CausalLikelihood(str(tiny_models.llama(tmp_path / "llama")), FP32)
    texts = ("", "The mill was built in 1700.")
    told = [Told("When was the mill built?", text, ("1700", "in 1700")) for text in texts]
    values = score(told)
    assert all(math.isfinite(value) and value < 0 for value in values)
    assert values[0] != values[1]
    assert score([told[1]]) == [pytest.approx(values[1], abs=1e-4)]
    with pytest.raises(ConfigError, match="scorer=nowhere"):
        CausalLikelihood("nowhere", FP32)


# --- what is learnt from


def test_a_pass_draws_the_gold_context_and_some_other_hits() -> None:
    one = Judged("Who?", ("Ada",), (("a ", "b "), ("c ", "d ", "e")), 3)
    none = Judged("Where?", ("Ouse",), (("a ", "b "),), None)
    draw = random.Random(0)
    seen = [example for _ in range(60) for example in drawn([one, none], 1.0, draw)]
    labelled = {(request, number) for request, number in seen}
    assert labelled == {
        (("Who?", "c ", "d ", "e"), 1),
        (("Who?", "d "), 0),
        (("Who?", "c "), None),
        (("Who?", "e"), None),
        *((("Who?", *own), None) for own in (("a ", "b "), ("a ",), ("b ",))),
        *((("Where?", *own), None) for own in (("a ", "b "), ("a ",), ("b ",))),
    }
    assert [number for _, number in drawn([one], 0.0, draw)] in ([1], [0], [None])


def test_training_learns_its_labels_by_heart(settings: dict[str, object], place: Path, tmp_path: Path) -> None:
    trainer = opened(tmp_path / "store", place / "towns.json", **settings, negatives=4.0)
    assert all(one.gold is not None for one in trainer._learnt)
    rows = [row for epoch in range(3) for row in trainer.rows(epoch)]
    trainer.rows_per_step = len(rows)
    losses = [trainer.step(rows, number, 0.3).losses["loss"] for number in range(130)]
    assert losses[-1] < losses[0] / 4
    write_weights(tmp_path / "out", trainer.model, trainer.base)
    scores = trainer._probabilities(tmp_path / "out", trainer._learnt)
    assert figures("cxmi", trainer._learnt, scores).top_is_gold > 0.9


# --- what is left


def test_weights_come_with_a_threshold_a_card_and_figures(whole: Path) -> None:
    assert {file.name for file in whole.iterdir()} == {ADAPTER, SETTINGS, HELD_OUT, FIGURES, "README.md", RECIPE}
    rows = json.loads((whole / FIGURES).read_text())["figures"]
    assert [row["by"] for row in rows] == ["cxmi", "minilm", "isrel"]
    assert all(0 <= row["top_has_answer"] <= row["any_has_answer"] <= 1 for row in rows)
    card = (whole / "README.md").read_text()
    assert "8 questions of 4 articles" in card
    assert "vitalfew train recipe.yaml squad:towns.json --out DIR" in card
    model = SentenceFilter(whole, FP32, "refine")
    assert model.threshold == json.loads((whole / SETTINGS).read_text())["threshold"]
    (values,) = model.read([("When was the mill built?", "It lies on a river. ", "The mill was built in 1742.")])
    assert values.shape == (2,)
    assert 0 < values.sum() <= 1.001


def test_an_interrupted_training_comes_to_the_same_weights(
    settings: dict[str, object], whole: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = train_stage(tmp_path, place / "towns.json", **settings)
    step, calls = CxmiTrainer.step, []

    def interrupted(self, *arguments):  # type: ignore[no-untyped-def]
        calls.append(arguments)
        if len(calls) in (2, 5):
            raise Interrupted
        return step(self, *arguments)

    monkeypatch.setattr(CxmiTrainer, "step", interrupted)
    for _ in range(2):
        with pytest.raises(Interrupted):
            broken.run("test")
    broken.run("test")
    for path in whole.iterdir():
        assert (broken.artifact.directory / "weights" / path.name).read_bytes() == path.read_bytes()


# --- figures


def test_the_threshold_has_the_best_f1() -> None:
    asked = [Judged("Who?", ("Ada",), (("a ", "b ", "c "),), 0), Judged("Where?", ("x",), (("a ", "b "),), 1)]
    assert best_threshold(asked, [[0.9, 0.42, 0.3], [0.1, 0.44]]) == 0.45
    assert best_threshold([], []) == 0.05
