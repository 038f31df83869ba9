"""`runner: auto` takes one process where Ray saves less than it costs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import copied
from tests.support.indexing import contents, parameters
from tests.support.shared import indexed
from vitalfew.configs.schema import Execution
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.quote import runner
from vitalfew.flows.pipelines.quote.runner import runner_for
from vitalfew.flows.server.access import is_named
from vitalfew.storage.costs import Quote, save_quotes

ROOT = Path(__file__).parents[3]
AUTO = {"runner": "auto", "workers": 2}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_ADDRESS", "PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.chdir(tmp_path)


def test_auto_is_the_default_and_the_others_are_kept(tmp_path: Path) -> None:
    assert Execution().runner == "auto"
    for named in ("ray", "serial"):
        assert runner_for(graph(parameters(tmp_path, runner=named)), is_server_named=False) == named


def test_a_small_corpus_is_indexed_in_one_process_and_a_large_one_on_ray(tmp_path: Path) -> None:
    plans = [
        graph(parameters(tmp_path, f"synthetic:passages={passages},questions=1", **AUTO))
        for passages in (100, 1_000_000)
    ]
    assert [runner_for(plan, is_server_named=False) for plan in plans] == ["serial", "ray"]
    assert runner_for(plans[0], is_server_named=True) == "ray"
    alone = plans[1].parameters.model_copy(update={"workers": 1})
    assert runner_for(graph(alone), is_server_named=False) == "serial"


def test_a_cluster_and_a_gpu_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_gpu = graph(parameters(tmp_path, encode={"encoder": "tests.support.fakes:GpuEncoder"}, **AUTO))
    assert runner_for(on_gpu, is_server_named=False) == "ray"
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    assert runner_for(graph(parameters(tmp_path, **AUTO)), is_server_named=False) == "ray"


def test_the_quote_decides_where_there_is_one(tmp_path: Path) -> None:
    plan = graph(parameters(tmp_path, **AUTO))  # of several shards
    for seconds, name in ((1000.0, "ray"), (1.0, "serial")):
        quotes = [
            Quote(stage.artifact.fingerprint, stage.name, "ray", 2, 1, 1, seconds, seconds, 0.0, 1, 1, 0.0)
            for stage in plan.stages
        ]
        save_quotes(tmp_path, quotes)
        assert runner_for(plan, is_server_named=False) == name


@pytest.mark.parametrize(
    ("generator", "batch", "name"),
    [
        ("tests.support.fakes:FirstWords", 2, "ray"),  # of unknown speed
        ("tests.support.fakes:FirstWords", 256, "serial"),  # one shard, which nobody shares
        ("openai", 256, "ray"),  # Prefect may hold its key
    ],
)
def test_what_workers_could_share_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generator: str, batch: int, name: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "some")
    store = copied(indexed(), tmp_path / "store")
    generate: dict[str, Any] = {"generator": generator}
    generate |= {"model": "some", "base_url": "http://127.0.0.1:1/v1"} if generator == "openai" else {}
    settings = {"index": "test", "generate": generate, "methods": {"naive": {}}, "questions": {"batch": batch}}
    plan = graph(evaluation("trial", settings, {"store": store, **AUTO}))
    assert runner_for(plan, is_server_named=False) == name


def test_the_bundled_reader_fills_all_cores_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"index": "test", "methods": {"naive": {}}, "questions": {"batch": 2}}
    plan = graph(evaluation("trial", settings, {"store": copied(indexed(), tmp_path / "store"), **AUTO}))
    assert runner_for(plan, is_server_named=False) == "serial"
    monkeypatch.setattr(runner, "NETWORKS", ())
    assert runner_for(plan, is_server_named=False) == "ray"


def test_a_server_is_named_by_the_environment_a_profile_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_named()
    profiles = tmp_path / "prefect" / "profiles.toml"
    profiles.parent.mkdir()
    profiles.write_text(
        'active = "own"\n[profiles.own]\n[profiles.local]\nPREFECT_API_URL = "http://127.0.0.1:4200/api"\n'
    )
    assert not is_named()
    monkeypatch.setenv("PREFECT_PROFILE", "local")
    assert is_named()
    monkeypatch.setenv("PREFECT_API_URL", "")
    assert not is_named()


@pytest.mark.slow
def test_auto_gives_the_same_bytes_as_both_runners(tmp_path: Path) -> None:
    fake = ["--set", "encode.encoder=tests.support.fakes:HashEncoder", "--set", "load.shard_passages=20"]
    for name in ("auto", "serial", "ray"):
        command = [sys.executable, "-m", "vitalfew.flows.cli", "index", "synthetic:passages=60,questions=10,seed=3"]
        command += ["--name", "test", "--runner", name, "--workers", "2", "--store", str(tmp_path / name), *fake]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "auto") == contents(tmp_path / "serial") == contents(tmp_path / "ray")
