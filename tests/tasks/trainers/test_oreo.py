"""Oreo's trainings: that they learn, and that a kill changes nothing."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.oreo import SMALL, examples, reader
from tests.support.stages import staged
from tests.support.tiny_models import t5_generator
from tests.support.towns import TOWNS
from tests.support.training import Interrupted, steps
from vitalfew.configs.training import TrainConfig
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.models.small.policies import Shape, read_policy
from vitalfew.tasks.models.small.tuned import ADAPTER, SETTINGS
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.refiners.oreo import Oreo
from vitalfew.tasks.train import TrainContrastive, TrainOnExamples, TrainPpo, TrainSft
from vitalfew.tasks.trainers.oreo.training import Diverged

FILES = {ADAPTER, SETTINGS, "README.md", "figures.json", "held_out.txt", "recipe.yaml"}
STEPWISE: dict[str, Any] = {**SMALL, "checkpoint_every": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights of a tiny reader."""
    return reader(tmp_path_factory.mktemp("reader"))


def sft(store: Path, place: Path, **settings: Any) -> TrainOnExamples:
    given = {"trainer": "tests.support.oreo:MortalSft", "base": str(place), "epochs": 2, **STEPWISE, **settings}
    return staged(TrainSft, store, examples(store), None, TrainConfig.model_validate(given))


def contents(artifact: Artifact) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (artifact.directory / "weights").iterdir()}


def later(kind: type[TrainOnExamples], first: TrainOnExamples, **settings: Any) -> TrainOnExamples:
    """A training that begins with the weights of another."""
    given = {**STEPWISE, **settings, "base": first.config.base}  # type: ignore[attr-defined]
    config = TrainConfig.model_validate(given)
    return staged(kind, first.store, first.inputs["examples"], first.artifact, config)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory, place: Path) -> TrainOnExamples:
    """A fine-tuning that nothing disturbed."""
    stage = sft(tmp_path_factory.mktemp("whole"), place)
    stage.run("test")
    return stage


def test_the_weights_are_a_policy_with_its_card(learnt: TrainOnExamples) -> None:
    assert set(contents(learnt.artifact)) == FILES
    directory = learnt.artifact.directory / "weights"
    figures = json.loads((directory / "figures.json").read_text())
    assert [row["articles"] for row in figures["figures"]] == ["choosing", "held out"]
    assert all(row["grounded"] == 1 for row in figures["figures"])
    assert len(figures["curve"]) == 2
    assert (directory / "held_out.txt").read_text() == f"{TOWNS[5]}\n"
    assert TOWNS[4] in (directory / "README.md").read_text()
    policy = read_policy(directory, Shape(torch.device("cpu"), torch.float32, 200, 256))
    assert policy.read(["Who?"], [["A mill."]])[0].tokens > 0


def test_an_interrupted_training_comes_to_the_same_bytes(
    learnt: TrainOnExamples, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FATE", "step:4")  # in the middle of the second pass
    with pytest.raises(Interrupted):
        sft(tmp_path, place).run("first")
    monkeypatch.delenv("FATE")
    stage = sft(tmp_path, place)
    stage.run("second")
    assert contents(stage.artifact) == contents(learnt.artifact)
    assert steps(stage.artifact) == steps(learnt.artifact)
    assert [row["step"] for row in steps(stage.artifact)] == [1, 2, 3, 4]


def test_it_learns_to_write_its_targets(place: Path, tmp_path: Path) -> None:
    stage = sft(tmp_path, place, dropout=0.0, learning_rate=0.01)
    stage.open()
    trainer: Any = stage.method
    losses = [dict(trainer.step(trainer.learnt, number, 0.3).losses)["loss"] for number in range(40)]
    assert losses[-1] < 0.2 * losses[0]


CONTRASTIVE: dict[str, Any] = {"trainer": "tests.support.oreo:MortalContrastive", "epochs": 2, "beams": 3,
    "candidates": 5}  # fmt: skip
PPO: dict[str, Any] = {"trainer": "tests.support.oreo:MortalPpo", "batch": 2, "epochs": 2, "value_steps": 1,
    "learning_rate": 0.001}  # fmt: skip


def test_the_contrastive_training_ranks_the_policys_own_texts(learnt: TrainOnExamples) -> None:
    stage = later(TrainContrastive, learnt, **CONTRASTIVE)
    stage.run("test")
    rows = stage.artifact.read(0, "oreo_candidates").to_pylist()
    assert {row["kind"] for row in rows} == {"beam", "gold", "batch"}
    for number in range(4):
        own = [row for row in rows if row["question_id"] == number]
        assert len({row["text"] for row in own}) == len(own) <= 5
        assert sorted(row["rank"] for row in own) == list(range(1, len(own) + 1))
        best = min(own, key=lambda row: row["rank"])
        assert (best["kind"], best["rouge"]) == ("gold", 1.0)
        assert all((row["logprob"] is None) == (row["kind"] == "batch") for row in own)
    losses = dict(stage.artifact.read(0).to_pylist()[0]["losses"])
    assert losses["loss"] == pytest.approx(losses["contrastive"] + 0.5 * losses["sft"], rel=1e-4)


def test_reinforcement_begins_where_the_policy_is(learnt: TrainOnExamples) -> None:
    stage = later(TrainPpo, learnt, **PPO)
    stage.run("test")
    assert [row["step"] for row in steps(stage.artifact)] == [1, 2, 3, 4]
    losses = [dict(row["losses"]) for row in steps(stage.artifact)]
    assert losses[0]["kl"] == 0
    assert losses[-1]["kl"] != 0
    assert all(one["first_ratio"] == pytest.approx(1, abs=1e-5) and one["first_clipped"] == 0 for one in losses)
    rollouts = [row for shard in range(2) for row in stage.artifact.read(shard, "rollouts").to_pylist()]
    assert len(rollouts) == 8
    assert {row["step"] for row in rollouts} == {1, 2, 3, 4}
    assert all(row["reward"] <= row["rouge"] + 1 for row in rollouts)


@pytest.mark.parametrize(("kind", "given"), [(TrainContrastive, CONTRASTIVE), (TrainPpo, PPO)])
def test_an_interrupted_later_training_comes_to_the_same_bytes(
    kind: type[TrainOnExamples], given: dict[str, Any], learnt: TrainOnExamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = later(kind, learnt, **given)
    whole.run("test")
    before = contents(whole.artifact), steps(whole.artifact)
    shutil.rmtree(whole.artifact.directory)
    monkeypatch.setenv("FATE", "step:4")  # in the middle of the second pass
    with pytest.raises(Interrupted):
        later(kind, learnt, **given).run("first")
    monkeypatch.delenv("FATE")
    again = later(kind, learnt, **given)
    again.run("second")
    assert (contents(again.artifact), steps(again.artifact)) == before


def test_a_loss_that_is_no_number_keeps_the_last_checkpoint(place: Path, tmp_path: Path) -> None:
    stage = sft(tmp_path, place, trainer="tests.support.oreo:DivergingSft")
    with pytest.raises(Diverged, match=r"the loss of step 2 is nan"):
        stage.run("test")
    position = stage._position()
    assert position is not None
    assert position.step == 1


def test_an_encoder_decoder_goes_through_all_stages(tmp_path: Path) -> None:
    base = t5_generator(tmp_path / "t5")
    given = {**SMALL, "policy": "seq2seq", "base": str(base), "max_input_tokens": 64, "max_new_tokens": 6, "epochs": 1}
    material = examples(tmp_path)
    first = staged(TrainSft, tmp_path, material, None, TrainConfig.model_validate({**given, "trainer": "oreo_sft"}))
    second = {**given, "trainer": "oreo_contrastive", "beams": 3}
    then = staged(TrainContrastive, tmp_path, material, first.artifact, TrainConfig.model_validate(second))
    third = TrainConfig.model_validate({**given, "trainer": "oreo_ppo", "batch": 4, "dropout": 0.0})
    last = staged(TrainPpo, tmp_path, material, then.artifact, third)
    for stage in (first, then, last):
        stage.run("test")
    losses = dict(last.artifact.read(0).to_pylist()[0]["losses"])
    assert losses["kl"] == 0
    assert (losses["first_ratio"], losses["first_clipped"]) == (pytest.approx(1, abs=1e-5), 0)
    card = contents(last.artifact)["README.md"].decode()
    assert "vitalfew train oreo_t5 " in card
    refiner = Oreo(Oreo.Options(model=str(last.artifact.directory / "weights"), precision="fp32", max_new_tokens=5))
    refined = refiner.refine(["Who?"], [[Hit("", "A river runs for 120 km to the sea.", 2, 0, 35)]])
    assert len(refined.contexts[0]) <= 1


def test_a_copier_keeps_its_encoder_by_reinforcement(learnt: TrainOnExamples) -> None:
    stage = later(TrainPpo, learnt, **{**PPO, "trainer": "oreo_ppo", "value_steps": 0})
    stage.open()
    trainer: Any = stage.method
    before = {name: weight.detach().clone() for name, weight in trainer.model.trained().items()}
    trainer.step(trainer.batches(0)[0], 0, 0.5)
    moved = {name for name, weight in trainer.model.trained().items() if not torch.equal(weight, before[name])}
    assert not any(name.startswith(("encoder.", "head.")) for name in moved)
    assert any(name.startswith("layers.") for name in moved)
