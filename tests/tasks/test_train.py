"""The stage `train`: its shards, checkpoints, what a kill leaves, and what lies in the store at the end."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiny_models import bert
from tests.support.towns import towns
from tests.support.training import Interrupted, contents, steps, train_stage
from vitalfew.storage.artifacts import training_figures
from vitalfew.storage.upkeep.verify import verify
from vitalfew.tasks.models.small.tuned import ADAPTER, SETTINGS
from vitalfew.tasks.train import Train

MORTAL = "tests.support.training:Mortal"
FILES = {ADAPTER, SETTINGS, "README.md", "figures.json", "held_out.txt", "recipe.yaml"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of questions and an encoder."""
    folder = tmp_path_factory.mktemp("place")
    towns(folder / "towns.json")
    bert(folder / "base", 256)
    return folder


def mortal(store: Path, place: Path, **settings: Any) -> Train:
    given = {"trainer": MORTAL, "base": str(place / "base"), "rank": 4, "epochs": 3, "clozes": 1, "checkpoint_every": 2}
    return train_stage(store, place / "towns.json", **{**given, **settings})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, place: Path) -> Train:
    """A training that nothing disturbed."""
    stage = mortal(tmp_path_factory.mktemp("whole"), place)
    stage.run("test")
    return stage


def test_a_shard_is_a_pass_and_the_last_has_the_weights(whole: Train) -> None:
    manifest = whole.artifact.completed()
    assert [record.shard for record in manifest.shards] == [0, 1, 2, 3, 4]  # clozes, three passes, figures
    assert set(contents(whole.artifact)) == FILES
    assert {file.path.rpartition("/")[2] for file in manifest.shards[-1].files} == FILES
    assert manifest.rows == {"training_steps": len(steps(whole.artifact)), "weights": 0}
    assert not whole.staging.exists()
    assert not list(verify([whole.artifact], lambda read: None))
    assert [row["contexts"] for row in training_figures(whole.artifact)] == [1, 10]


@pytest.mark.parametrize("fate", ["step:1", "step:5", "finish:1"])
def test_an_interrupted_training_comes_to_the_same_bytes(
    fate: str, whole: Train, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = mortal(tmp_path, place)
    monkeypatch.setenv("FATE", fate)
    with pytest.raises(Interrupted):
        stage.run("first")
    monkeypatch.delenv("FATE")
    stage.run("second") if fate == "step:5" else mortal(tmp_path, place).run("second")
    assert contents(stage.artifact) == contents(whole.artifact)
    assert steps(stage.artifact) == steps(whole.artifact)


def test_the_fingerprint_follows_what_decides_the_weights(place: Path, tmp_path: Path) -> None:
    stage = mortal(tmp_path, place)
    same = {"threads": 2, "checkpoint_every": 7, "device": "cpu"}
    assert mortal(tmp_path, place, **same).artifact == stage.artifact
    bert(tmp_path / "other", 256)
    shutil.copy(tmp_path / "other" / "model.safetensors", tmp_path / "kept")
    for changed in ({"seed": 1}, {"precision": "bf16"}, {"rank": 5}, {"base": str(tmp_path / "other")}, {"steps": 3}):
        assert mortal(tmp_path, place, **changed).artifact != stage.artifact, changed
    first = mortal(tmp_path, place, base=str(tmp_path / "other")).artifact
    weights = tmp_path / "other" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    assert mortal(tmp_path, place, base=str(tmp_path / "other")).artifact != first
