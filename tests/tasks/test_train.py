"""The stage `train`: its shards, checkpoints, what a kill leaves, and what lies in the store at the end."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.stages import staged
from tests.support.tiny_models import bert
from tests.support.towns import towns
from tests.support.training import Interrupted, kill, train_stage
from vitalfew.configs.loading import ConfigError
from vitalfew.storage.artifacts import Artifact, export_weights, training_figures
from vitalfew.storage.upkeep.verify import verify
from vitalfew.tasks.models.small.tuned import ADAPTER, SETTINGS
from vitalfew.tasks.registry import UnknownName
from vitalfew.tasks.train import CHECKPOINT, Train

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


def run_mortal(store: Path, place: Path, run_id: str) -> None:
    mortal(store, place).run(run_id)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, place: Path) -> Train:
    """A training that nothing disturbed."""
    stage = mortal(tmp_path_factory.mktemp("whole"), place)
    stage.run("test")
    return stage


def contents(artifact: Artifact) -> dict[str, bytes]:
    """The files of finished weights, by name."""
    return {path.name: path.read_bytes() for path in (artifact.directory / "weights").iterdir()}


def steps(artifact: Artifact) -> list[dict[str, Any]]:
    """The rows of `training_steps` without the time they took."""
    rows = [row for path in sorted(artifact.directory.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def test_a_shard_is_a_pass_and_the_last_has_the_weights(whole: Train) -> None:
    manifest = whole.artifact.completed()
    assert [record.shard for record in manifest.shards] == [0, 1, 2, 3, 4]  # clozes, three passes, figures
    assert set(contents(whole.artifact)) == FILES
    assert {file.path.rpartition("/")[2] for file in manifest.shards[-1].files} == FILES
    assert manifest.rows == {"training_steps": len(steps(whole.artifact)), "weights": 0}
    assert not whole.staging.exists()
    assert not list(verify([whole.artifact], lambda read: None))
    assert [row["contexts"] for row in training_figures(whole.artifact)] == [1, 10]


def test_steps_have_a_row_each(whole: Train) -> None:
    rows = steps(whole.artifact)
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["epoch"] for row in rows] == sorted(row["epoch"] for row in rows)
    for row in rows:
        losses = dict(row["losses"])
        assert losses["loss"] == pytest.approx(losses["span"] + losses["answerable"])
        assert row["stage"] == MORTAL
        assert row["rows"] > 0
    assert rows[0]["lr"] == 0 < max(row["lr"] for row in rows) <= 8e-4
    last = {row["epoch"]: row["step"] for row in rows}
    assert [row["step"] for row in rows if row["quality"] is not None] == [*last.values()]


def test_every_shard_is_in_the_ledger(whole: Train) -> None:
    costs = pq.read_table(whole.artifact.ledger).to_pylist()
    rows = steps(whole.artifact)
    assert [row["shard"] for row in costs] == [0, 1, 2, 3, 4]
    assert sum(row["rows"] for row in costs) == len(rows)
    assert sum(row["tokens"] for row in costs[:-1]) == sum(row["tokens"] for row in rows)
    assert all(row["stage"] == "train" and row["model"] == MORTAL for row in costs)


def test_a_second_run_does_nothing(whole: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Train, "work", lambda *given: pytest.fail("it was done already"))
    before = whole.artifact.completed()
    again = staged(Train, whole.store, whole.inputs["questions"], None, whole.config)
    assert again.artifact == whole.artifact
    assert again.run("later") == before


@pytest.mark.parametrize("fate", ["step:1", "step:2", "step:5", "quality:2", "finish:1"])
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


def test_a_killed_training_goes_on_to_the_same_bytes(whole: Train, place: Path, tmp_path: Path) -> None:
    """kill -9 in the second pass, twice; each time the finished pass and the latest checkpoint are kept."""
    for number, fate in enumerate(("step:6", "step:2")):
        kill(fate, run_mortal, tmp_path, place, f"run-{number}")
    stage = mortal(tmp_path, place)
    assert 0 < len(stage.pending()) < 5
    stage.run("last")
    assert contents(stage.artifact) == contents(whole.artifact)
    assert steps(stage.artifact) == steps(whole.artifact)
    paid = {row["run_id"] for row in pq.read_table(stage.artifact.ledger).to_pylist()}
    assert {"run-0", "last"} <= paid


def test_without_its_checkpoint_a_training_begins_anew(
    whole: Train, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = mortal(tmp_path, place)
    monkeypatch.setenv("FATE", "step:5")
    with pytest.raises(Interrupted):
        stage.run("first")
    monkeypatch.delenv("FATE")
    (stage.staging / CHECKPOINT).write_bytes(b"no tensors")
    assert stage.pending() == [0, 1, 2, 3, 4]
    stage.run("second")
    assert contents(stage.artifact) == contents(whole.artifact)


def test_damaged_weights_are_made_again(whole: Train, place: Path, tmp_path: Path) -> None:
    shutil.copytree(whole.store, tmp_path / "store")
    stage = mortal(tmp_path / "store", place)
    adapter = stage.artifact.directory / "weights" / ADAPTER
    adapter.write_bytes(b"nothing")
    assert stage.manifest() is None
    stage.run("again")
    assert contents(stage.artifact) == contents(whole.artifact)


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


def test_steps_end_a_training_early(place: Path, tmp_path: Path) -> None:
    stage = mortal(tmp_path, place, steps=3, clozes=0)
    stage.run("test")
    assert [row["step"] for row in steps(stage.artifact)] == [1, 2, 3]
    assert [record.rows("training_steps") for record in stage.artifact.completed().shards] == [2, 1, 0, 0]


def test_the_last_allowed_step_may_be_interrupted_before_its_weights_are_judged(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"steps": 3, "clozes": 0, "checkpoint_every": 1}
    whole, stage = (mortal(tmp_path / name, place, **given) for name in ("whole", "cut"))
    whole.run("test")
    monkeypatch.setenv("FATE", "quality:2")
    with pytest.raises(Interrupted):
        stage.run("first")
    monkeypatch.delenv("FATE")
    mortal(tmp_path / "cut", place, **given).run("second")
    assert contents(stage.artifact) == contents(whole.artifact)
    assert steps(stage.artifact) == steps(whole.artifact)


def test_progress_is_of_the_steps_that_are_due(place: Path, tmp_path: Path) -> None:
    stage = mortal(tmp_path, place, steps=1, clozes=0, epochs=1)
    told: list[int] = []
    stage.run("test", lambda count, tokens: told.append(count) if tokens else None)
    assert len(stage.method.batches(0)) > 1
    assert told[0] == stage.total_rows() // 2  # after the only step, of the first of two shards


def test_any_network_and_any_rows_can_be_trained(place: Path, tmp_path: Path) -> None:
    stage = train_stage(tmp_path, place / "towns.json", trainer="tests.support.training:Line", epochs=2, **NO_ARTICLES)
    rows: list[int] = []
    stage.run("test", lambda count, tokens: rows.append(count))
    assert sum(rows) == stage.total_rows() == 3 * 12
    assert [dict(row["losses"]).keys() for row in steps(stage.artifact)] == [{"square"}] * 8
    assert set(contents(stage.artifact)) == {"line.txt", "figures.json"}


NO_ARTICLES = {"held_out": None, "choosing": None, "batch_tokens": None}


def test_export_copies_the_finished_weights(whole: Train, tmp_path: Path) -> None:
    export_weights(whole.artifact, tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == contents(whole.artifact)
    with pytest.raises(FileNotFoundError, match="not complete"):
        export_weights(Artifact(tmp_path, "training_steps", "0" * 16), tmp_path / "out")


def test_what_no_trainer_has_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'reader'"):
        train_stage(tmp_path, place / "towns.json", trainer="raeder")
    with pytest.raises(ConfigError, match=r"unknown setting 'negativs' \(did you mean 'negatives'\?\)"):
        train_stage(tmp_path, place / "towns.json", trainer="reader", negativs=1)
    with pytest.raises(ConfigError, match="rank is a setting of trainer reader"):
        train_stage(tmp_path, place / "towns.json", trainer="critic", rank=1)
