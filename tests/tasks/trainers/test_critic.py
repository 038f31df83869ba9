"""The trainer `critic`: what it learns from, that it learns, and what it leaves."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.readers import hardly_learnt
from tests.support.shared import shared
from tests.support.towns import towns
from tests.support.training import Interrupted, opened, train_stage, write_weights
from vitalfew.configs.loading import ConfigError
from vitalfew.storage.artifacts import FIGURES
from vitalfew.tasks.datasets.specification import parse_dataset
from vitalfew.tasks.models.small.tuned import ADAPTER, SETTINGS
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.raters.embedded import Embedded
from vitalfew.tasks.trainers.articles import contains_answer, read_material
from vitalfew.tasks.trainers.card import HELD_OUT, RECIPE
from vitalfew.tasks.trainers.critic import CriticTrainer
from vitalfew.tasks.trainers.discrimination import auc, columns, discrimination, interval
from vitalfew.tasks.trainers.judgements import JudgementSampler, LabelledCandidate, lessons

LESSONS = 150


@pytest.fixture(scope="module")
def place() -> Path:
    """A file of questions, and a reader that has hardly learnt them."""
    return shared("reader-of-towns", hardly_learnt)


@pytest.fixture(scope="module")
def settings(place: Path) -> dict[str, object]:
    return {"trainer": "critic", "reader": str(place / "reader"), "learning_rate": 1e-2,
        "epochs": 2, "checkpoint_every": 2}  # fmt: skip


@pytest.fixture(scope="module")
def whole(settings: dict[str, object], place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights of a training that nothing disturbed."""
    stage = train_stage(tmp_path_factory.mktemp("whole"), place / "towns.json", **settings)
    stage.run("test")
    return stage.artifact.directory / "weights"


def test_training_learns_its_lessons_by_heart(settings: dict[str, object], place: Path, tmp_path: Path) -> None:
    trainer = opened(tmp_path / "store", place / "towns.json", **settings)
    contexts, answers = trainer.sampler.contexts(0), trainer.sampler.answers(0)
    rows = lessons(trainer.tokenizer, contexts, answers)
    trainer.rows_per_step = len(rows)
    losses = [trainer.step(rows, number, 0.3).losses["loss"] for number in range(LESSONS)]
    assert losses[-1] < losses[0] / 2
    write_weights(tmp_path / "out", trainer.model, trainer.base)
    critic = trainer.critic(tmp_path / "out")
    relevant = np.array(critic.relevance([(each.question, each.context) for each in contexts]))
    assert auc(np.array([bool(each.spans) for each in contexts]), relevant) > 0.95
    told = critic.rate([RatedContext(each.question, "", each.answer) for each in answers])
    assert auc(np.array([each.useful for each in answers]), np.array([each["isuse"] for each in told])) > 0.95
    with_answer = [each for each in contexts if each.spans]
    right = [RatedContext(each.question, each.context, each.context[slice(*each.spans[0])]) for each in with_answer]
    wrong = [RatedContext(each.question, each.context, "river") for each in with_answer]
    found = np.array([each["issup"] for each in critic.rate([*right, *wrong])])
    assert auc(np.arange(len(found)) < len(right), found) > 0.95


def test_weights_come_with_a_card_figures_and_what_was_held_out(whole: Path) -> None:
    figures = json.loads((whole / FIGURES).read_text())["figures"]
    assert [(row["unit"], row["aspect"], row["among"]) for row in figures] == [
        (unit, aspect, among)
        for unit in ("sentence", "passage")
        for aspect, among in (("isrel", "all"), ("issup", "relevant"), ("isuse", "all"), ("isrel_issup", "all"))
    ]
    assert [row["unit"] for row in json.loads((whole / FIGURES).read_text())["fronts"]] == ["sentence", "passage"]
    assert {*json.loads((whole / SETTINGS).read_text())["calibration"]} == {"isrel", "issup", "isuse"}
    assert {file.name for file in whole.iterdir()} == {ADAPTER, SETTINGS, HELD_OUT, FIGURES, "README.md", RECIPE}
    card = (whole / "README.md").read_text()
    assert "8 questions of 4 articles" in card
    assert "vitalfew train recipe.yaml squad:towns.json --out DIR" in card
    judged = RatedContext("Who built the mill?", "The mill was built by Ada Norrin.", "Ada Norrin")
    Embedded(Embedded.Options(model=str(whole))).rate([judged])


def test_an_interrupted_training_comes_to_the_same_weights(
    settings: dict[str, object], whole: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = train_stage(tmp_path, place / "towns.json", **settings)
    step, calls = CriticTrainer.step, []

    def interrupted(self, *arguments):  # type: ignore[no-untyped-def]
        calls.append(arguments)
        if len(calls) in (4, 7):
            raise Interrupted
        return step(self, *arguments)

    monkeypatch.setattr(CriticTrainer, "step", interrupted)
    for _ in range(2):
        with pytest.raises(Interrupted):
            broken.run("test")
    broken.run("test")
    for path in whole.iterdir():
        assert (broken.artifact.directory / "weights" / path.name).read_bytes() == path.read_bytes()


def test_a_reader_that_has_seen_what_is_held_out_is_refused(
    settings: dict[str, object], place: Path, tmp_path: Path
) -> None:
    stage = train_stage(tmp_path / "store", place / "towns.json", **settings, held_out=2)
    with pytest.raises(ConfigError, match=r"may have learnt from '.*', which the critic holds out"):
        stage.run("test")


class Echo:
    """A reader that points at a text's first word."""

    def generate(self, prompts, tick=None):  # type: ignore[no-untyped-def]
        from vitalfew.tasks.models.causal.engines.base import Completion

        return [Completion(prompt.contexts[0].split()[0], 1, 1, 0.0) for prompt in prompts]


def test_lessons_are_true(tmp_path: Path) -> None:
    records = (record for _, record in parse_dataset(f"squad:{towns(tmp_path / 'towns.json')}")[1].records())
    material = read_material(records)
    sampler = JudgementSampler(material, 2.0, 1, Echo())  # type: ignore[arg-type]
    golds = {asked.question: asked.answers for asked in material.questions[1::2]}
    contexts = [each for epoch in range(8) for each in sampler.contexts(epoch) if each.question in golds]
    for each in contexts:
        assert {each.context[start:end] for start, end in each.spans} <= set(golds[each.question])
        assert bool(each.spans) == contains_answer(each.context, golds[each.question])
    answers = [each for epoch in range(8) for each in sampler.answers(epoch) if each.question in golds]
    assert all(each.answer and each.useful == (each.answer in golds[each.question]) for each in answers)
    assert {each.useful for each in answers} == {True, False}
    assert sampler.answers(3) == sampler.answers(3) != sampler.answers(4)


# Quality


def test_support_is_measured_among_relevant_contexts_alone() -> None:
    truth = [(True, True), (True, False), (False, False), (False, True)]
    judged = [LabelledCandidate(RatedContext("Who?", "", str(n)), a, a and b, b) for n, (a, b) in enumerate(truth)]
    scores = [(0.9, 0.8, 0.5), (0.8, 0.3, 0.4), (0.1, 0.9, 0.3), (0.2, 0.9, 0.6)]
    told = [Judgement(dict(zip(("isrel", "issup", "isuse"), values, strict=True))) for values in scores]
    rows = {row.aspect: row for row in discrimination("passage", columns(told, judged), resamples=0)}
    assert {aspect: row.candidates for aspect, row in rows.items()} == {
        "isrel": 4,
        "issup": 2,
        "isuse": 4,
        "isrel_issup": 4,
    }
    assert (rows["isrel"].auc, rows["issup"].auc, rows["isrel_issup"].auc) == (1, 1, 1)
    assert rows["issup"].ece == pytest.approx((0.2 + 0.3) / 2)


def test_auc_is_the_share_of_pairs_in_the_right_order() -> None:
    draw = np.random.default_rng(1)
    truth, scores = draw.random(60) < 0.3, draw.integers(0, 8, 60) / 8
    pairs = [(right, wrong) for right in scores[truth] for wrong in scores[~truth]]
    expected = sum((right > wrong) + 0.5 * (right == wrong) for right, wrong in pairs) / len(pairs)
    assert auc(truth, scores) == pytest.approx(expected)
    assert np.isnan(auc(np.ones(3, bool), np.ones(3)))
    low, high = interval(truth, scores, np.arange(60) // 3)
    assert low < expected < high
    assert (low, high) == interval(truth, scores, np.arange(60) // 3)
