"""Thirty `kill -9` at random moments of indexing, evaluating and training: nothing is lost, and nothing differs."""

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.indexing import contents, sql
from tests.support.killing import is_killed, seconds
from tests.support.tiny_models import bert
from tests.support.towns import towns
from vitalfew.storage.files import checksum
from vitalfew.storage.runs import read_runs

pytestmark = pytest.mark.slow

KILLS = 10
"""Of each command."""


def _index(place: Path, store: Path) -> list[str]:
    command = ["index", "synthetic:passages=400,questions=60,seed=3", "--name", "test", "--runner", "serial"]
    fakes = ["encode.encoder=tests.support.fakes:HashEncoder", "load.shard_passages=50", "bm25.enabled=true"]
    return [
        *command,
        *(word for setting in [*fakes, "index.type=sq8"] for word in ("--set", setting)),
        "--store",
        str(store),
    ]


def _evaluate(place: Path, store: Path) -> list[str]:
    settings = ["generate.generator=tests.support.fakes:FirstWords", "questions.batch=5", "questions.sample=20"]
    command = ["evaluate", "quickstart", "--index", "test", "--runner", "serial", "--store", str(store)]
    return [*command, *(word for setting in settings for word in ("--set", setting))]


def _train(place: Path, store: Path) -> list[str]:
    command = ["train", str(place / "recipe.yaml"), f"squad:{place / 'towns.json'}", "--runner", "serial"]
    return [*command, "--store", str(store)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read."""
    folder = tmp_path_factory.mktemp("place")
    towns(folder / "towns.json")
    given = {"trainer": "reader", "base": bert(folder / "base", 256), "rank": 4, "epochs": 6, "batch_tokens": 256}
    given |= {"held_out": 1, "choosing": 1, "precision": "fp32", "threads": 1}
    (folder / "recipe.yaml").write_text("".join(f"{name}: {value}\n" for name, value in given.items()))
    return folder


@pytest.mark.parametrize(("command", "first"), [(_index, None), (_evaluate, _index), (_train, None)])
def test_ten_kills_at_random_moments(
    tmp_path: Path,
    place: Path,
    command: Callable[[Path, Path], list[str]],
    first: Callable[[Path, Path], list[str]] | None,
) -> None:
    """Each kill meets the command as it goes on from the last one; where it comes to its end, it begins anew."""
    undisturbed = tmp_path / "undisturbed"
    if first:
        seconds(first(place, undisturbed))
        shutil.copytree(undisturbed, tmp_path / "before")
    whole_takes = seconds(command(place, undisturbed))
    whole = _results(undisturbed)
    moments = random.Random(command.__name__)
    kills = stores = 0
    while kills < KILLS:
        store = tmp_path / str(stores)
        stores += 1
        assert stores < 3 * KILLS
        if first:
            shutil.copytree(tmp_path / "before", store)
        while kills < KILLS and is_killed(command(place, store), moments.uniform(0, whole_takes)):
            kills += 1
            assert _results(store).items() <= whole.items()
        seconds(command(place, store))
        _is_as_if_nothing_had_happened(store, whole)


def _results(store: Path) -> dict[str, str]:
    """Checksums of all that is not a record of time: a step of a training says how many seconds it took."""
    weights = {str(path.relative_to(store)): checksum(path) for path in store.glob("**/weights/*.safetensors")}
    return weights | {path: value for path, value in contents(store).items() if not path.startswith("training_steps")}


def _is_as_if_nothing_had_happened(store: Path, whole: dict[str, str]) -> None:
    assert _results(store) == whole
    states = Counter(run.state for run in read_runs(store))
    assert set(states) <= {"completed", "interrupted"}
    assert read_runs(store)[-1].state == "completed"
    assert sql(store, "SELECT stage, shard FROM costs GROUP BY stage, shard, fingerprint HAVING count(*) > 1") == []
    from vitalfew.flows.cli.main import app

    for words in (["store", "gc", "--delete"], ["store", "verify"]):
        done = CliRunner().invoke(app, [*words, "--store", str(store)])
        assert done.exit_code == 0, done.output
    assert "No fault" in done.output
    assert not list(store.glob("**/.*.tmp"))
