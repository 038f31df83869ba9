"""A tiny reader for trainers that begin with one."""

from pathlib import Path

from tests.support.tiny_models import bert
from tests.support.towns import towns
from tests.support.training import train_stage
from vitalfew.storage.artifacts import export_weights


def hardly_learnt(folder: Path) -> None:
    """Fill a folder with `towns.json`, a file of questions, and `reader`, the weights of a reader after one epoch."""
    folder.mkdir()
    given = {"trainer": "reader", "base": str(bert(folder / "base", 256)), "epochs": 1, "rank": 16}
    stage = train_stage(folder / "store", towns(folder / "towns.json"), **given)
    stage.run("test")
    export_weights(stage.artifact, folder / "reader")
