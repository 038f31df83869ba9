"""The trainers `reader`, `critic` and `cxmi`: what they learn from, and what they leave."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.support import tiny_models
from tests.support.readers import hardly_learnt
from tests.support.shared import shared
from tests.support.training import train_stage
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching
from vitalfew.storage.artifacts import FIGURES, Artifact
from vitalfew.tasks.datasets.specification import parse_dataset
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.generators.reader import Reader, Told
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.small.sentence_filter import SentenceFilter
from vitalfew.tasks.models.small.tuned import ADAPTER, SETTINGS
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.raters.embedded import Embedded
from vitalfew.tasks.train import Train
from vitalfew.tasks.trainers.articles import contains_answer, read_material
from vitalfew.tasks.trainers.base import HELD_OUT, RECIPE
from vitalfew.tasks.trainers.cxmi import (
    CausalLikelihood,
    Judged,
    ReaderLikelihood,
    best_threshold,
    cxmi,
    gold,
)
from vitalfew.tasks.trainers.judgements import JudgementSampler, LabelledCandidate, columns, discrimination

FP32 = Batching(device="cpu", precision="fp32")
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
    stages = {trainer: stage_of(tmp_path_factory.mktemp(trainer), place, trainer) for trainer in GIVEN}
    for stage in stages.values():
        stage.run("test")
    return {trainer: stage.artifact for trainer, stage in stages.items()}


def test_weights_come_with_a_card_figures_and_what_was_held_out(whole: dict[str, Artifact], place: Path) -> None:
    weights = {trainer: artifact.directory / "weights" for trainer, artifact in whole.items()}
    for out in (*weights.values(), place / "reader"):
        assert {file.name for file in out.iterdir()} == FILES
        card = (out / "README.md").read_text()
        assert "8 questions of 4 articles" in card
        assert "vitalfew train recipe.yaml squad:towns.json --out DIR" in card
    question, context = "When was the mill built?", "The mill was built in 1742."
    assert Reader(Reader.Options(model=str(place / "reader"))).generate([Prompt("", question, (context,))])[0].text
    critic = weights["critic"]
    assert {*json.loads((critic / SETTINGS).read_text())["calibration"]} == {"isrel", "issup", "isuse"}
    Embedded(Embedded.Options(model=str(critic))).rate([RatedContext(question, context, "1742")])
    model = SentenceFilter(str(weights["cxmi"]), FP32, "refine")
    assert model.threshold == json.loads((weights["cxmi"] / SETTINGS).read_text())["threshold"]
    (values,) = model.read([(question, "It lies on a river. ", context)])
    assert 0 < values.sum() <= 1.001


def test_a_reader_that_has_seen_what_is_held_out_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"may have learnt from '.*', which the critic holds out"):
        stage_of(tmp_path, place, "critic", held_out=2).run("test")


# The reader


# The critic


class Echo:
    """A reader that points at a text's first word."""

    def generate(self, prompts, tick=None):  # type: ignore[no-untyped-def]
        return [Completion(prompt.contexts[0].split()[0], 1, 1, 0.0) for prompt in prompts]


def test_lessons_are_true(place: Path) -> None:
    material = read_material(record for _, record in parse_dataset(f"squad:{place / 'towns.json'}")[1].records())
    sampler = JudgementSampler(material, 2.0, 1, Echo())  # type: ignore[arg-type]
    golds = {asked.question: asked.answers for asked in material.questions[1::2]}
    contexts = [each for epoch in range(8) for each in sampler.contexts(epoch) if each.question in golds]
    for each in contexts:
        assert {each.context[start:end] for start, end in each.spans} <= set(golds[each.question])
        assert bool(each.spans) == contains_answer(each.context, golds[each.question])
    assert {bool(each.spans) for each in contexts} == {True, False}
    answers = [each for epoch in range(8) for each in sampler.answers(epoch) if each.question in golds]
    assert all(each.answer and each.useful == (each.answer in golds[each.question]) for each in answers)
    assert {each.useful for each in answers} == {True, False}
    assert sampler.answers(3) == sampler.answers(3) != sampler.answers(4)


def test_support_is_measured_among_relevant_contexts_alone() -> None:
    truth = [(True, True), (True, False), (False, False), (False, True)]
    judged = [LabelledCandidate(RatedContext("Who?", "", str(n)), a, a and b, b) for n, (a, b) in enumerate(truth)]
    scores = [(0.9, 0.8, 0.5), (0.8, 0.3, 0.4), (0.1, 0.9, 0.3), (0.2, 0.9, 0.6)]
    told = [Judgement(dict(zip(("isrel", "issup", "isuse"), values, strict=True))) for values in scores]
    rows = {row["aspect"]: row for row in discrimination("passage", columns(told, judged), resamples=0)}
    counts = {aspect: row["candidates"] for aspect, row in rows.items()}
    assert counts == {"isrel": 4, "issup": 2, "isuse": 4, "isrel_issup": 4}
    assert [rows[aspect]["auc"] for aspect in ("isrel", "issup", "isrel_issup")] == [1, 1, 1]
    assert rows["issup"]["ece"] == pytest.approx((0.2 + 0.3) / 2)


# The filter of sentences


def test_labels_and_threshold_of_the_filter_are_those_of_filco() -> None:
    """CXMI is what a sentence adds to the log-likelihood; the first of the largest is gold, if it is above `least`."""
    likelihood = {"": 1 / 8, "a": 1 / 2, "b": 1 / 16}
    two = Judged("Who?", ("Ada",), (("a", "b"),), None)
    found = cxmi(lambda told: [math.log(likelihood[one.text]) for one in told], [two])
    assert found == [[pytest.approx(math.log(4)), pytest.approx(-math.log(2))]]
    assert [gold([0.5, 2.0, 2.0]), gold([-0.1, -math.inf]), gold([-0.1, -2.0], least=-1.0)] == [1, None, 0]
    asked = [Judged("Who?", ("Ada",), (("a ", "b ", "c "),), 0), Judged("Where?", ("x",), (("a ", "b "),), 1)]
    assert best_threshold(asked, [[0.9, 0.42, 0.3], [0.1, 0.44]]) == 0.45


def test_a_reader_or_a_language_model_says_how_likely_an_answer_is(place: Path, tmp_path: Path) -> None:
    reader = ReaderLikelihood(Reader(Reader.Options(model=str(place / "reader"), precision="fp32")))
    lacking = "It lies on a river."
    likely = reader([Told("When was it built?", text, ("1700",)) for text in ("", "Built in 1700.", lacking)])
    assert [math.isfinite(value) and value < 0 for value in likely] == [True, True, False]
    score = CausalLikelihood(str(tiny_models.llama(tmp_path / "llama")), FP32)
    texts = ("", "The mill was built in 1700.")
    told = [Told("When was the mill built?", text, ("1700", "in 1700")) for text in texts]
    without, given = score(told)
    assert -math.inf < without != given < 0
    assert score([told[1]]) == [pytest.approx(given, abs=1e-4)]
