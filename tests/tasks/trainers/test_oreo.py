"""Oreo's trainings: that they learn, and that a kill changes nothing."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.oreo import SMALL, examples, reader
from tests.support.stages import staged
from tests.support.tiny_models import t5_generator
from tests.support.training import contents, resumed, steps
from vitalfew.configs.training import TrainConfig
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.refiners.oreo import Oreo
from vitalfew.tasks.train import TrainContrastive, TrainOnExamples, TrainPpo, TrainSft
from vitalfew.tasks.trainers.oreo.training import Diverged


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights of a tiny reader."""
    return reader(tmp_path_factory.mktemp("reader"))


SETTINGS_OF: dict[str, dict[str, Any]] = {
    "sft": {},
    "contrastive": {"beams": 3, "candidates": 5},
    "ppo": {"value_steps": 1, "learning_rate": 0.001},
}
KINDS = {"sft": TrainSft, "contrastive": TrainContrastive, "ppo": TrainPpo}


def training(name: str, base: Path, material: Artifact, earlier: Artifact | None, **settings: Any) -> TrainOnExamples:
    trainer = "tests.support.oreo:MortalPpo" if name == "ppo" else f"oreo_{name}"
    given = {"trainer": trainer, "base": str(base), "epochs": 2, **SMALL, "checkpoint_every": 1, **SETTINGS_OF[name]}
    config = TrainConfig.model_validate({**given, **settings})
    return staged(KINDS[name], material.store, material, earlier, config)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, place: Path) -> dict[str, TrainOnExamples]:
    """By name, a training that nothing disturbed; the later two begin with the weights of the first."""
    material = examples(tmp_path_factory.mktemp("whole"))
    found: dict[str, TrainOnExamples] = {}
    for name in KINDS:
        found[name] = training(name, place, material, found["sft"].artifact if found else None)
        found[name].run("test")
    return found


def test_an_interrupted_training_comes_to_the_same_bytes(whole: dict[str, TrainOnExamples], place: Path) -> None:
    """In the middle of the second pass of the training with the most state."""
    stage = whole["ppo"]
    before = contents(stage.artifact), steps(stage.artifact)
    shutil.rmtree(stage.artifact.directory)
    assert resumed(lambda: training("ppo", place, stage.inputs["examples"], stage.inputs["weights"])) == before


def test_the_contrastive_training_ranks_the_policys_own_texts(whole: dict[str, TrainOnExamples]) -> None:
    artifact = whole["contrastive"].artifact
    rows = artifact.read(0, "oreo_candidates").to_pylist()
    assert {row["kind"] for row in rows} == {"beam", "gold", "batch"}
    for number in range(4):
        own = sorted((row for row in rows if row["question_id"] == number), key=lambda row: row["rank"])
        assert len({row["text"] for row in own}) == len(own) <= 5
        assert [row["rank"] for row in own] == list(range(1, len(own) + 1))
        assert (own[0]["kind"], own[0]["rouge"]) == ("gold", 1.0)
    losses = dict(artifact.read(0).to_pylist()[0]["losses"])
    assert losses["loss"] == pytest.approx(losses["contrastive"] + 0.5 * losses["sft"], rel=1e-4)


def test_reinforcement_begins_where_the_policy_is(whole: dict[str, TrainOnExamples]) -> None:
    artifact = whole["ppo"].artifact
    losses = [dict(row["losses"]) for row in steps(artifact)]
    assert (losses[0]["kl"], losses[-1]["kl"] != 0) == (0, True)
    assert all(one["first_ratio"] == pytest.approx(1, abs=1e-5) and one["first_clipped"] == 0 for one in losses)
    rollouts = [row for shard in range(2) for row in artifact.read(shard, "rollouts").to_pylist()]
    assert sorted(row["step"] for row in rollouts) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert all(row["reward"] <= row["rouge"] + 1 for row in rollouts)


def test_a_loss_that_is_no_number_keeps_the_last_checkpoint(place: Path, tmp_path: Path) -> None:
    stage = training("sft", place, examples(tmp_path), None, trainer="tests.support.oreo:DivergingSft")
    with pytest.raises(Diverged, match=r"the loss of step 2 is nan"):
        stage.run("test")
    position = stage._position()
    assert position is not None
    assert position.step == 1


def test_an_encoder_decoder_goes_through_all_trainings(tmp_path: Path) -> None:
    base, material = t5_generator(tmp_path / "t5"), examples(tmp_path)
    given = {"policy": "seq2seq", "max_input_tokens": 64, "max_new_tokens": 6, "epochs": 1, "dropout": 0.0}
    last = None
    for name in KINDS:
        stage = training(name, base, material, last, trainer=f"oreo_{name}", **given)
        stage.run("test")
        last = stage.artifact
    losses = dict(stage.artifact.read(0).to_pylist()[0]["losses"])
    assert losses["kl"] == 0
    assert (losses["first_ratio"], losses["first_clipped"]) == (pytest.approx(1, abs=1e-5), 0)
    assert "vitalfew train oreo_t5 " in contents(stage.artifact)["README.md"].decode()
    weights = str(stage.artifact.directory / "weights")
    refiner = Oreo(Oreo.Options(model=weights, precision="fp32", max_new_tokens=5))
    refined = refiner.refine(["Who?"], [[Hit("", "A river runs for 120 km to the sea.", 2, 0, 35)]])
    assert len(refined.contexts[0]) <= 1
