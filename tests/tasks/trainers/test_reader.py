"""The trainer `reader`: what it learns from, that it learns, and what it leaves."""

from pathlib import Path

import pytest

from tests.support.tiny_models import bert
from tests.support.towns import towns
from tests.support.training import opened, train_stage, write_weights
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.specification import parse_dataset
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.generators.reader import Reader
from vitalfew.tasks.models.small.tuned import ADAPTER, SETTINGS
from vitalfew.tasks.train import Train
from vitalfew.tasks.trainers.articles import contains_answer, read_material
from vitalfew.tasks.trainers.card import HELD_OUT, RECIPE
from vitalfew.tasks.trainers.examples import Sampler
from vitalfew.tasks.trainers.reader import measure


@pytest.fixture
def squad(tmp_path: Path) -> Path:
    return towns(tmp_path / "towns.json")


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    base = str(bert(tmp_path / "base", 256))
    return {"trainer": "reader", "base": base, "negatives": 1.0, "rank": 16, "learning_rate": 5e-3}


def test_training_learns_its_questions_by_heart(settings: dict[str, object], squad: Path, tmp_path: Path) -> None:
    trainer = opened(tmp_path / "store", squad, epochs=320, **settings)
    number = 0
    for epoch in range(320):
        for batch in trainer.batches(epoch):
            trainer.step(batch, number, epoch / 320)
            number += 1
    write_weights(tmp_path / "last", trainer.model, trainer.base)
    assert measure(trainer.reader(tmp_path / "last"), trainer.learnt, 1).f1 > 90


def test_weights_come_with_a_card_figures_and_what_was_held_out(
    settings: dict[str, object], squad: Path, tmp_path: Path
) -> None:
    stage: Train = train_stage(tmp_path / "store", squad, epochs=1, **settings)
    stage.run("test")
    out = stage.artifact.directory / "weights"
    assert {file.name for file in out.iterdir()} == {ADAPTER, SETTINGS, HELD_OUT, "figures.json", "README.md", RECIPE}
    assert len((out / HELD_OUT).read_text().splitlines()) == 1
    card = (out / "README.md").read_text()
    assert "8 questions of 4 articles" in card
    assert "vitalfew train recipe.yaml squad:towns.json --out DIR" in card
    assert "held_out: 1\n" in (out / RECIPE).read_text()
    question, context = "When was the mill built?", "The mill was built in 1742."
    assert Reader(Reader.Options(model=str(out))).generate([Prompt("", question, (context,))])[0].text


def test_questions_whose_answers_are_nowhere_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "nq.jsonl"
    path.write_text('{"question": "who", "answer": ["Ada"]}\n')
    records = [record for _, record in parse_dataset(f"nq_open:{path}")[1].records()]
    with pytest.raises(InputError, match="no question has its answer marked"):
        read_material(records)


def test_examples_have_their_answer_and_distractors_have_none(squad: Path) -> None:
    material = read_material(record for _, record in parse_dataset(f"squad:{squad}")[1].records())
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
