"""The trainers `reader`, `critic` and `cxmi`: what they learn from, that they learn, and what they leave."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import tiny_models
from tests.support.readers import hardly_learnt
from tests.support.shared import shared
from tests.support.towns import towns
from tests.support.training import Interrupted, opened, steps, train_stage, write_weights
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching
from vitalfew.storage.artifacts import FIGURES, Artifact
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.specification import parse_dataset
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.generators.reader import Reader, Told
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.small.sentence_filter import SentenceFilter
from vitalfew.tasks.models.small.tuned import ADAPTER, SETTINGS
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.raters.embedded import Embedded
from vitalfew.tasks.train import Train
from vitalfew.tasks.trainers.articles import Material, contains_answer, read_material
from vitalfew.tasks.trainers.card import HELD_OUT, RECIPE
from vitalfew.tasks.trainers.critic import CriticTrainer
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
from vitalfew.tasks.trainers.discrimination import auc, columns, discrimination, interval
from vitalfew.tasks.trainers.examples import Sampler
from vitalfew.tasks.trainers.judgements import JudgementSampler, LabelledCandidate, lessons
from vitalfew.tasks.trainers.reader import measure

FP32 = Batching(device="cpu", precision="fp32")
TRAINERS = {"critic": CriticTrainer, "cxmi": CxmiTrainer}
GIVEN: dict[str, dict[str, Any]] = {
    "critic": {"trainer": "critic"},
    # A reader that has learnt nothing says little for any text: the best sentence counts, whatever its CXMI.
    "cxmi": {"trainer": "cxmi", "least": -1e9},
}
FILES = {ADAPTER, SETTINGS, HELD_OUT, FIGURES, "README.md", RECIPE}


@pytest.fixture(scope="module")
def place() -> Path:
    """A file of questions, and a reader that has hardly learnt them."""
    return shared("reader-of-towns", hardly_learnt)


def stage_of(store: Path, place: Path, trainer: str, **settings: Any) -> Train:
    given = {"learning_rate": 1e-2, "epochs": 2, "checkpoint_every": 1, "reader": str(place / "reader"), **settings}
    return train_stage(store, place / "towns.json", **GIVEN[trainer], **given)


@pytest.fixture(scope="module")
def whole(place: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """By trainer, a training that nothing disturbed."""
    found = {}
    for trainer in TRAINERS:
        stage = stage_of(tmp_path_factory.mktemp(trainer), place, trainer)
        stage.run("test")
        found[trainer] = stage.artifact
    return found


@pytest.mark.parametrize("trainer", TRAINERS)
def test_an_interrupted_training_comes_to_the_same_weights(
    trainer: str, whole: dict[str, Artifact], place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = stage_of(tmp_path, place, trainer)
    step, calls = TRAINERS[trainer].step, []

    def interrupted(self, *arguments):  # type: ignore[no-untyped-def]
        calls.append(arguments)
        if len(calls) in (2, 5):
            raise Interrupted
        return step(self, *arguments)

    monkeypatch.setattr(TRAINERS[trainer], "step", interrupted)
    for _ in range(2):
        with pytest.raises(Interrupted):
            broken.run("test")
    broken.run("test")
    assert steps(broken.artifact) == steps(whole[trainer])
    for path in (whole[trainer].directory / "weights").iterdir():
        assert (broken.artifact.directory / "weights" / path.name).read_bytes() == path.read_bytes()


def test_weights_come_with_a_card_figures_and_what_was_held_out(whole: dict[str, Artifact], place: Path) -> None:
    weights = {trainer: artifact.directory / "weights" for trainer, artifact in whole.items()}
    for out in (*weights.values(), place / "reader"):
        assert {file.name for file in out.iterdir()} == FILES
        card = (out / "README.md").read_text()
        assert "8 questions of 4 articles" in card
        assert "vitalfew train recipe.yaml squad:towns.json --out DIR" in card
        assert len((out / HELD_OUT).read_text().splitlines()) == 1
    question, context = "When was the mill built?", "The mill was built in 1742."
    assert Reader(Reader.Options(model=str(place / "reader"))).generate([Prompt("", question, (context,))])[0].text
    critic = weights["critic"]
    assert {*json.loads((critic / SETTINGS).read_text())["calibration"]} == {"isrel", "issup", "isuse"}
    Embedded(Embedded.Options(model=str(critic))).rate([RatedContext(question, context, "1742")])
    model = SentenceFilter(weights["cxmi"], FP32, "refine")
    assert model.threshold == json.loads((weights["cxmi"] / SETTINGS).read_text())["threshold"]
    (values,) = model.read([(question, "It lies on a river. ", context)])
    assert values.shape == (2,)
    assert 0 < values.sum() <= 1.001


def test_a_reader_that_has_seen_what_is_held_out_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"may have learnt from '.*', which the critic holds out"):
        stage_of(tmp_path, place, "critic", held_out=2).run("test")


# The reader


def material_of(folder: Path) -> Material:
    return read_material(record for _, record in parse_dataset(f"squad:{towns(folder / 'towns.json')}")[1].records())


def test_the_reader_learns_its_questions_by_heart(place: Path, tmp_path: Path) -> None:
    given = {"trainer": "reader", "base": str(place / "base"), "negatives": 1.0, "rank": 16, "learning_rate": 5e-3}
    trainer = opened(tmp_path / "store", place / "towns.json", epochs=160, batch_tokens=1024, **given)
    for epoch in range(160):
        [batch] = trainer.batches(epoch)
        trainer.step(batch, epoch, epoch / 160)
    write_weights(tmp_path / "last", trainer.model, trainer.base)
    assert measure(trainer.reader(tmp_path / "last"), trainer.learnt, 1).f1 > 90


def test_questions_whose_answers_are_nowhere_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "nq.jsonl"
    path.write_text('{"question": "who", "answer": ["Ada"]}\n')
    records = [record for _, record in parse_dataset(f"nq_open:{path}")[1].records()]
    with pytest.raises(InputError, match="no question has its answer marked"):
        read_material(records)


def test_examples_have_their_answer_and_distractors_have_none(tmp_path: Path) -> None:
    material = material_of(tmp_path)
    sampler = Sampler(material, 2.0, seed=1)
    answers = {asked.question: asked.answers for asked in material.questions[1::2]}
    found = [example for epoch in range(5) for _, example in sampler.examples(epoch) if example.question in answers]
    for example in found:
        if example.spans:
            assert {example.context[start:end] for start, end in example.spans} <= set(answers[example.question])
        else:
            assert not contains_answer(example.context, answers[example.question])
    assert {bool(example.spans) for example in found} == {True, False}
    assert list(sampler.examples(3)) == list(Sampler(material, 2.0, seed=1).examples(3))
    assert list(sampler.examples(3)) != list(sampler.examples(4))


# The critic


def test_the_critic_learns_its_lessons_by_heart(place: Path, tmp_path: Path) -> None:
    stage = stage_of(tmp_path / "store", place, "critic", learning_rate=2e-2)
    stage.open()
    trainer: Any = stage.method
    contexts, answers = trainer.sampler.contexts(0)[:12], trainer.sampler.answers(0)[:12]
    rows = lessons(trainer.tokenizer, contexts, answers)
    trainer.rows_per_step = len(rows)
    losses = [trainer.step(rows, number, 0.3).losses["loss"] for number in range(80)]
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


class Echo:
    """A reader that points at a text's first word."""

    def generate(self, prompts, tick=None):  # type: ignore[no-untyped-def]
        return [Completion(prompt.contexts[0].split()[0], 1, 1, 0.0) for prompt in prompts]


def test_lessons_are_true(tmp_path: Path) -> None:
    material = material_of(tmp_path)
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


def test_support_is_measured_among_relevant_contexts_alone() -> None:
    truth = [(True, True), (True, False), (False, False), (False, True)]
    judged = [LabelledCandidate(RatedContext("Who?", "", str(n)), a, a and b, b) for n, (a, b) in enumerate(truth)]
    scores = [(0.9, 0.8, 0.5), (0.8, 0.3, 0.4), (0.1, 0.9, 0.3), (0.2, 0.9, 0.6)]
    told = [Judgement(dict(zip(("isrel", "issup", "isuse"), values, strict=True))) for values in scores]
    rows = {row.aspect: row for row in discrimination("passage", columns(told, judged), resamples=0)}
    counts = {aspect: row.candidates for aspect, row in rows.items()}
    assert counts == {"isrel": 4, "issup": 2, "isuse": 4, "isrel_issup": 4}
    assert (rows["isrel"].auc, rows["issup"].auc, rows["isrel_issup"].auc) == (1, 1, 1)
    assert rows["issup"].ece == pytest.approx((0.2 + 0.3) / 2)


def test_auc_is_the_share_of_pairs_in_the_right_order() -> None:
    draw = np.random.default_rng(1)
    truth, scores = draw.random(60) < 0.3, draw.integers(0, 8, 60) / 8
    pairs = [(right, wrong) for right in scores[truth] for wrong in scores[~truth]]
    expected = sum((right > wrong) + 0.5 * (right == wrong) for right, wrong in pairs) / len(pairs)
    assert auc(truth, scores) == pytest.approx(expected)
    low, high = interval(truth, scores, np.arange(60) // 3)
    assert low < expected < high
    assert (low, high) == interval(truth, scores, np.arange(60) // 3)


# The filter of sentences


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
    texts = ["", "The mill was built in 1700.", "It lies on a river.", ""]
    told = score([Told("When was the mill built?", text, ("1700",)) for text in texts])
    assert told[0] == told[3] < 0
    assert math.isfinite(told[1])
    assert told[2] == -math.inf


def test_a_language_model_says_how_likely_the_first_answer_is(tmp_path: Path) -> None:
    score = CausalLikelihood(str(tiny_models.llama(tmp_path / "llama")), FP32)
    texts = ("", "The mill was built in 1700.")
    told = [Told("When was the mill built?", text, ("1700", "in 1700")) for text in texts]
    values = score(told)
    assert all(math.isfinite(value) and value < 0 for value in values)
    assert values[0] != values[1]
    assert score([told[1]]) == [pytest.approx(values[1], abs=1e-4)]


def test_a_pass_draws_the_gold_context_and_some_other_hits() -> None:
    one = Judged("Who?", ("Ada",), (("a ", "b "), ("c ", "d ", "e")), 3)
    none = Judged("Where?", ("Ouse",), (("a ", "b "),), None)
    draw = random.Random(0)
    seen = {example for _ in range(60) for example in drawn([one, none], 1.0, draw)}
    assert seen == {
        (("Who?", "c ", "d ", "e"), 1),
        (("Who?", "d "), 0),
        (("Who?", "c "), None),
        (("Who?", "e"), None),
        *((("Who?", *own), None) for own in (("a ", "b "), ("a ",), ("b ",))),
        *((("Where?", *own), None) for own in (("a ", "b "), ("a ",), ("b ",))),
    }
    assert [number for _, number in drawn([one], 0.0, draw)] in ([1], [0], [None])


def test_the_filter_learns_its_labels_by_heart(place: Path, tmp_path: Path) -> None:
    stage = stage_of(tmp_path / "store", place, "cxmi", negatives=4.0)
    stage.open()
    trainer: Any = stage.method
    assert all(one.gold is not None for one in trainer._learnt)
    rows = [row for epoch in range(3) for row in trainer.rows(epoch)]
    trainer.rows_per_step = len(rows)
    losses = [trainer.step(rows, number, 0.3).losses["loss"] for number in range(130)]
    assert losses[-1] < losses[0] / 4
    write_weights(tmp_path / "out", trainer.model, trainer.base)
    scores = trainer._probabilities(tmp_path / "out", trainer._learnt)
    assert figures("cxmi", trainer._learnt, scores).top_is_gold > 0.9


def test_the_threshold_has_the_best_f1() -> None:
    asked = [Judged("Who?", ("Ada",), (("a ", "b ", "c "),), 0), Judged("Where?", ("x",), (("a ", "b "),), 1)]
    assert best_threshold(asked, [[0.9, 0.42, 0.3], [0.1, 0.44]]) == 0.45
    assert best_threshold([], []) == 0.05
