"""Oreo's three trainings, killed at random: the same weights as without, and no step missing or twice."""

import random
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.indexing import sql
from tests.support.oreo import SMALL, examples, reader
from tests.support.stages import staged
from tests.support.training import kill
from vitalfew.configs.training import TrainConfig
from vitalfew.tasks.train import TrainContrastive, TrainOnExamples, TrainPpo, TrainSft

KILLS = 5
STAGES: tuple[tuple[type[TrainOnExamples], dict[str, Any]], ...] = (
    (TrainSft, {"trainer": "tests.support.oreo:MortalSft", "epochs": 15}),
    (TrainContrastive, {"trainer": "tests.support.oreo:MortalContrastive", "epochs": 5, "beams": 3}),
    (TrainPpo, {"trainer": "tests.support.oreo:MortalPpo", "epochs": 10, "batch": 4, "learning_rate": 0.001}),
)
"""30, 10 and 10 steps."""


def train(store: Path, place: Path) -> list[TrainOnExamples]:
    """All three, each on the one before."""
    material, stages = examples(store), []
    for kind, settings in STAGES:
        earlier = stages[-1].artifact if stages else None
        config = TrainConfig.model_validate({**SMALL, **settings, "base": str(place)})
        stages.append(staged(kind, store, material, earlier, config))
        stages[-1].run("test")
    return stages


def digests(stages: list[TrainOnExamples]) -> list[dict[str, str]]:
    """Of every training the sha256 of its files."""
    folders = [one.artifact.directory / "weights" for one in stages]
    return [{path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()} for folder in folders]


@pytest.mark.slow
def test_five_kills_at_random_change_nothing_and_every_step_is_there_once(tmp_path: Path) -> None:
    place = reader(tmp_path / "reader")
    whole = digests(train(tmp_path / "whole", place))
    draw = random.Random()
    fates = [f"step:{draw.randint(1, 6)}" for _ in range(KILLS)]
    for fate in fates:
        kill(fate, train, tmp_path / "killed", place)
    stages = train(tmp_path / "killed", place)
    assert digests(stages) == whole, fates
    steps = sql(
        tmp_path / "killed",
        "SELECT stage, count(*), count(DISTINCT step), min(step), max(step) FROM training_steps GROUP BY stage",
    )
    assert sorted(row[1:] for row in steps) == [(10, 10, 1, 10), (10, 10, 1, 10), (30, 30, 1, 30)], fates
