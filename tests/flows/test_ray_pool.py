"""Ray: what its workers are given, a local Ray that nobody else can use, and a cluster that loses nodes."""

import json
import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from configs.evaluation import GenerateConfig
from configs.loading import ConfigError
from flows.pipelines.graph import graph
from flows.pipelines.run import run_serially
from flows.ray_pool import Worker, passed, secrets_of
from storage.runs import read_runs
from tasks.generate import Generate
from tasks.stage import Stage
from tests.flows.pipelines.test_evaluate import parameters as evaluation
from tests.support.indexing import SYNTHETIC, contents, index, parameters
from tests.support.ray_nodes import ROOT, Nodes, three_nodes, wait_for

ENCODER = "tests.support.fakes:HaltedEncoder"
EVALUATION = """
index: test
questions: {batch: 4}
generate: {generator: 'tests.support.fakes:FirstWords'}
retrieve: {top_k: 5}
methods: {naive: {retrieve: {retriever: passage}}, pareto: {retrieve: {retriever: core_context}}}
"""


def stage(store: Path) -> Stage:
    return graph(parameters(store)).stages[0]


def test_workers_of_a_cluster_get_what_is_named_and_no_secret() -> None:
    given = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VITALFEW_DATA": "/data"}
    kept_back = {
        "OPENAI_API_KEY": "k",
        "VITALFEW_WEBHOOK": "https://hooks.example/secret",
        "VITALFEW_OWN_KEY": "k",
        "RAY_AUTH_TOKEN": "t",
        "PATH": "/bin",
        "PYTHONPATH": ".",
    }
    assert passed(given | kept_back) == given


def test_a_key_travels_with_the_stage_that_reads_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {
        "OPENAI_API_KEY": "sk-1",
        "OPENAI_BASE_URL": "https://models.example.org/v1",
        "VITALFEW_API_KEYS": "other.example.org=OTHER_KEY",
        "OTHER_KEY": "sk-2",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    asked = stage(tmp_path).artifact
    paid = Generate(tmp_path, asked, None, GenerateConfig.model_validate({"generator": "openai", "model": "m"}))
    own = Generate(tmp_path, asked, None, GenerateConfig(generator="tests.support.fakes:FirstWords"))
    assert secrets_of(paid) == environment
    assert secrets_of(own) == secrets_of(stage(tmp_path)) == {}


def test_a_node_without_the_store_says_which_and_where(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"the node \S+ \([\d.]+\) has no store at {tmp_path}/elsewhere"):
        Worker().do({}, pickle.dumps(stage(tmp_path / "elsewhere")), "run", None, 0)
    assert not (tmp_path / "elsewhere").exists()


LOCAL = """
import json, os, sys
import psutil
from configs.loading import build
from configs.schema import IndexCorpus
from flows.ray_pool import ray, ray_cluster

with ray_cluster(build(IndexCorpus, {"name": "n", "datasets": ["synthetic:"], "workers": 1})):
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [socket for process in family for socket in process.net_connections() if socket.status == "LISTEN"]
    told = {
        "processes": [process.pid for process in family],
        "commands": [process.cmdline() for process in family],
        "hosts": sorted({socket.laddr.ip.removeprefix("::ffff:") for socket in sockets}),
        "token": os.environ["RAY_AUTH_TOKEN"],
        "gcs": ray.get_runtime_context().gcs_address,
        "folder": ray._private.worker._global_node.get_session_dir_path(),
        "nodes": len(ray.nodes()),
    }
    print(json.dumps(told), flush=True)
    sys.stdin.read()
"""
STRANGER = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    # Sockets of Unix have short names.
    folder = Path("/tmp") / f"nodes-{os.getpid()}"
    folder.mkdir()
    with three_nodes(folder) as nodes:
        yield nodes
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.mark.slow
def test_index_and_evaluate_lose_a_node_each_and_no_byte(nodes: Nodes, tmp_path: Path) -> None:
    file = tmp_path / "trial.yaml"
    file.write_text(EVALUATION)
    store, halt = tmp_path / "cluster", tmp_path / "halt"
    environment = {
        **nodes.environment,
        "VITALFEW_TEST_HALT": str(halt),
        "PREFECT_HOME": str(tmp_path / "prefect"),
    }
    commands = [
        ["index", SYNTHETIC, "--name", "test", "--set", f"encode.encoder={ENCODER}", "--set", "load.shard_passages=10"],
        ["evaluate", str(file)],
    ]
    for command in commands:
        halt.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *command, "--store", str(store)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            victim = halted_node(nodes, halt, process)
            nodes.kill(victim)
            subprocess.run(["rm", "-r", str(halt)], check=True)
            output, _ = process.communicate(timeout=300)
        finally:
            process.kill()
        assert process.returncode == 0, output
        assert "A worker was lost" in output
    whole = tmp_path / "whole"
    index(whole, encode={"encoder": ENCODER}, load={"shard_passages": 10})
    graph(evaluation(whole, yaml.safe_load(EVALUATION))).run(run_serially)
    assert contents(store) == contents(whole)
    assert [run.state for run in read_runs(store)] == ["completed", "completed"]


def halted_node(nodes: Nodes, halt: Path, process: "subprocess.Popen[str]") -> int:
    """The raylet of a node in the middle of its work, but not the driver's own."""

    def busy() -> set[int]:
        if process.poll() is not None:
            raise AssertionError(process.communicate()[0])
        return {psutil.Process(int(worker.name)).ppid() for worker in halt.iterdir()} & {*nodes.raylets[1:]}

    wait_for(busy)
    return busy().pop()


@pytest.mark.slow
def test_a_local_ray_beside_a_cluster_is_nobody_elses_and_dies_with_its_driver(nodes: Nodes, tmp_path: Path) -> None:
    ours = {"RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_MODE", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"}
    environment = {name: value for name, value in nodes.environment.items() if name not in ours}
    environment |= {"HOME": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", LOCAL], cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    try:
        told = json.loads(process.stdout.readline())
        family = [psutil.Process(number) for number in told["processes"]]
        assert told["nodes"] == 1
        assert told["hosts"] == ["127.0.0.1"]
        (own,) = [folder for folder in Path(told["folder"]).parents if folder.name.startswith("ray-")]
        assert stat.S_IMODE(own.stat().st_mode) == 0o700
        assert told["token"] not in str(told["commands"])
        assert subprocess.run(["grep", "-rqs", told["token"], own, tmp_path]).returncode == 1
        assert not (tmp_path / ".ray").exists()
        for token, admitted in ((told["token"], True), ("f" * 64, False)):
            stranger = subprocess.run(
                [sys.executable, "-c", STRANGER, told["gcs"]],
                env={**environment, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token},
                capture_output=True,
                text=True,
            )
            assert (stranger.returncode == 0) == admitted, stranger.stderr
            assert admitted or "InvalidAuthToken" in stranger.stderr
    finally:
        process.kill()
    # Ray's two agents try for a minute to report to the dead cluster that it is dead.
    agents = [one for one in family if one.is_running() and one.name().endswith("Agent")]
    _, left = psutil.wait_procs([one for one in family if one not in agents], timeout=30)
    for one in (*agents, *left):
        one.kill()
    subprocess.run(["rm", "-rf", own], check=True)
    assert not left
    assert len(agents) <= 2
