"""`vitalfew train`: a recipe and data sets → a run, an artifact, and a model in a directory."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.support.indexing import sql
from tests.support.tiny_models import bert
from tests.support.towns import towns
from vitalfew.configs.loading import ConfigError, read_yaml
from vitalfew.configs.training import TrainOreo
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.named import recipe_names, training
from vitalfew.storage.runs import read_runs
from vitalfew.storage.upkeep.inventory import RetentionPolicy
from vitalfew.storage.upkeep.removal import plan
from vitalfew.tasks.generators.reader import Reader
from vitalfew.tasks.models.weights import shipped
from vitalfew.tasks.registry import with_options


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    towns(folder / "towns.json")
    (folder / "more.jsonl").write_text('{"title": "Wool", "text": "Wool is sold in Kessin. It was dear in 1742."}\n')
    settings = "held_out: 1\nchoosing: 1\nprecision: fp32\nthreads: 1\n"
    reader = f"trainer: reader\nbase: {bert(folder / 'base', 256)}\nrank: 4\nepochs: 2\n"
    (folder / "mine.yaml").write_text(f"about: a small reader\n{reader}{settings}")
    (folder / "judge.yaml").write_text(f"trainer: critic\nreader: {folder / 'reader'}\n{settings}")
    return folder


def train(place: Path, recipe: str, *options: object) -> Result:
    given = ["train", str(place / recipe), f"squad:{place / 'towns.json'}", "--store", str(place / "store")]
    return CliRunner().invoke(app, [*given, "--runner", "serial", *map(str, options)])


def test_the_command_trains_exports_and_says_how_the_model_is_used(place: Path) -> None:
    more = "--passages", f"jsonl:{place / 'more.jsonl'}"
    first = train(place, "mine.yaml", *more, "--set", "epochs=1")
    assert first.exit_code == 0, first.output
    assert "exact match %" in first.output
    again = train(place, "mine.yaml", *more, "--set", "epochs=1", "--out", place / "reader")
    assert again.exit_code == 0, again.output
    assert "Nothing to do" in again.output
    assert f"generate.model={place / 'reader'}" in again.output.replace("\n", "")
    assert Reader(Reader.Options(model=str(place / "reader"))).identity()
    assert "5 passages as the source of" in (place / "reader" / "README.md").read_text()
    runs = read_runs(place / "store")
    assert [(run.flow, run.name, run.state) for run in runs] == [("train", "mine", "completed")] * 2
    assert sql(place / "store", "SELECT count(*) > 0, max(losses['loss']) > 0 FROM training_steps") == [(True, True)]
    assert not [removal for removal in plan(place / "store", RetentionPolicy()).removals if removal.kind == "artifact"]
    critic = train(place, "judge.yaml", "--set", "steps=2", "--out", place / "critic")
    assert critic.exit_code == 0, critic.output
    assert "critique.model=" in critic.output
    recipe = train(place, "reader/recipe.yaml", *more)  # what was exported trains the same again
    assert "Nothing to do" in recipe.output


def test_every_recipe_is_what_the_shipped_weights_were_trained_with() -> None:
    assert {*recipe_names()} > {"critic", "cxmi", "oreo", "oreo_t5", "reader", "sparse_rag"}
    for name in ("critic", "cxmi", "reader", "sparse_rag"):
        parameters = training(name, {"datasets": ["squad:x.json"]})
        options = with_options(parameters.train, "").model_dump(mode="json")
        settings = read_yaml(shipped(name) / "figures.json")["settings"]
        same = options.keys() & settings.keys() - {"precision"}  # recorded as the machine had it
        assert {"epochs", "learning_rate", "held_out", "seed"} <= same
        assert {key: options[key] for key in same} == {key: settings[key] for key in same}


def test_a_recipe_may_have_several_trainings() -> None:
    parameters = training("oreo_t5", {"datasets": [], "index": "squad", "ppo": {"delta": 0.05}})
    assert isinstance(parameters, TrainOreo)
    assert [one.trainer for one in parameters.trainings] == ["oreo_sft", "oreo_contrastive", "oreo_ppo"]
    assert parameters.ppo
    assert with_options(parameters.ppo, "ppo").model_dump()["delta"] == 0.05
    assert len(training("oreo_t5", {"index": "squad", "ppo": None}).trainings) == 2
    with pytest.raises(ConfigError, match="index"):
        training("oreo_t5", {"datasets": ["squad:x.json"]})
