"""The trainer of adapters: what it learns from, that it learns, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.support.tiny_models import llama
from tests.support.towns import towns
from tests.support.training import contents, train_stage
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.adapters import SETTINGS, WEIGHTS, Adapter
from vitalfew.tasks.train import Train

FILES = {SETTINGS, WEIGHTS, "README.md", "figures.json", "held_out.txt", "recipe.yaml"}
SMALL: dict[str, Any] = {
    "trainer": "sparse_rag", "batch_tokens": None, "epochs": 2, "contexts": 2, "rank": 2,
    "yes": ".", "no": "?", "check_questions": 2, "checkpoint_every": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of questions and a causal model."""
    folder = tmp_path_factory.mktemp("place")
    towns(folder / "towns.json")
    llama(folder / "base", positions=1024)
    return folder


def training(store: Path, place: Path, **settings: Any) -> Train:
    return train_stage(store, place / "towns.json", **{"base": str(place / "base"), **SMALL, **settings})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, place: Path) -> Train:
    """A training that nothing disturbed."""
    stage = training(tmp_path_factory.mktemp("whole"), place)
    stage.run("test")
    return stage


def test_the_weights_are_an_adapter_with_its_card(whole: Train, place: Path) -> None:
    assert set(contents(whole.artifact)) == FILES
    directory = whole.artifact.directory / "weights"
    settings = json.loads((directory / SETTINGS).read_text())
    assert (settings["r"], settings["base_model_name_or_path"]) == (2, str(place / "base"))
    plain = AutoModelForCausalLM.from_pretrained(place / "base")
    ids = torch.arange(6, 30)[None]
    before = plain(ids).logits
    after = Adapter(str(directory), "generate").merged(plain)(ids).logits
    assert (after - before).abs().max() > 1e-3
    figures = json.loads((directory / "figures.json").read_text())
    assert [row["articles"] for row in figures["figures"]] == ["choosing", "held out"]
    assert "8 questions of 4 articles" in (directory / "README.md").read_text()


def test_it_starts_from_an_adapter_and_holds_out_what_that_held_out(whole: Train, place: Path, tmp_path: Path) -> None:
    start = str(whole.artifact.directory / "weights")
    stage = training(tmp_path, place, start=start, seed=3)
    other = training(tmp_path, place, seed=3)
    stage.open()
    assert stage.method.weights()[WEIGHTS] == contents(whole.artifact)[WEIGHTS]
    other.open()
    unseen = tuple(contents(whole.artifact)["held_out.txt"].decode().splitlines())
    assert stage.method.split.held_out == unseen != other.method.split.held_out
    assert stage.method.identity()["begins_from"] != other.method.identity()["begins_from"]


def test_what_cannot_be_trained_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no layers with these names"):
        training(tmp_path, place, targets=["nowhere"]).open()
    with pytest.raises(ConfigError, match=r"yes must be one token .*'several words'.* tokens"):
        training(tmp_path, place, yes="several words").open()
