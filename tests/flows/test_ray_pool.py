"""Ray: what its workers are given, a local Ray that nobody else can use, and a cluster that loses nodes."""

import json
import pickle
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from tests.flows.pipelines.test_evaluate import parameters as evaluation
from tests.support.indexing import contents, index, objects_contents, parameters, sql
from tests.support.object_store import ObjectServer, s3_server
from tests.support.ray_nodes import ROOT, Nodes, wait_for
from tests.support.stages import staged
from tests.support.towns import towns
from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.paths import store_place
from vitalfew.configs.schema import Execution
from vitalfew.flows import ray_pool
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially
from vitalfew.flows.ray_pool import Job, Worker, on_node, passed, secrets_of
from vitalfew.storage import files
from vitalfew.storage.files.objects import client
from vitalfew.storage.runs import read_runs
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.registry import UnknownName
from vitalfew.tasks.stage import Stage

ENCODER = "tests.support.fakes:HaltedEncoder"
EVALUATION = """
index: test
questions: {{batch: 4, sample: 14}}
generate: {{generator: 'tests.support.fakes:FirstWords', prompt: {prompt}}}
retrieve: {{top_k: 5}}
methods: {{naive: {{retrieve: {{retriever: passage}}}}, pareto: {{retrieve: {{retriever: core_context}}}}}}
"""


def stage(store: Path) -> Stage:
    return graph(parameters(store)).stages[0]


def test_workers_of_a_cluster_get_what_is_named_and_no_secret() -> None:
    given = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VITALFEW_DATA": "/data"}
    secrets = ("AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "VITALFEW_CACHE", "VITALFEW_WEBHOOK", "RAY_AUTH_TOKEN")
    assert passed(given | dict.fromkeys(secrets, "secret")) == given


def test_a_key_travels_with_the_stage_that_reads_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {
        "OPENAI_API_KEY": "sk-1",
        "OPENAI_BASE_URL": "https://models.example.org/v1",
        "VITALFEW_API_KEYS": "other.example.org=OTHER_KEY",
        "OTHER_KEY": "sk-2",
    }
    for name, value in {**environment, "AWS_SECRET_ACCESS_KEY": "of a bucket"}.items():
        monkeypatch.setenv(name, value)
    asked = stage(tmp_path).artifact
    paid = staged(Generate, tmp_path, asked, None, GenerateConfig.model_validate({"generator": "openai", "model": "m"}))
    own = staged(Generate, tmp_path, asked, None, GenerateConfig(generator="tests.support.fakes:FirstWords"))
    assert secrets_of(paid) == environment
    assert secrets_of(own) == secrets_of(stage(tmp_path)) == {}


def test_a_node_without_the_store_says_which_and_where(tmp_path: Path) -> None:
    job = Job.of(stage(tmp_path / "elsewhere"), "run")
    with pytest.raises(ConfigError, match=rf"the node \S+ \([\d.]+\) has no store at {tmp_path}/elsewhere"):
        Worker().do(job, None, 0)
    assert not (tmp_path / "elsewhere").exists()


def test_an_error_of_a_node_names_it_and_travels() -> None:
    for error in (FileNotFoundError(2, "No such file", "/models/a"), UnknownName("prompt", "a", ["b"])):
        told = pickle.loads(pickle.dumps(on_node("host/1f09ac", error)))
        assert str(told).startswith(f"on the node host/1f09ac: {error}")
        assert isinstance(told, ConfigError if isinstance(error, UnknownName) else FileNotFoundError)


LOCAL = """
import json, os, sys
import psutil
from vitalfew.configs.loading import build
from vitalfew.configs.schema import IndexCorpus
from vitalfew.flows.ray_pool import ray, ray_cluster

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


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectServer]:
    """A bucket that this process reaches, and whoever gets `environment`."""
    with s3_server("ray-nodes") as server:
        for name, value in {**server.environment, "VITALFEW_CACHE": str(tmp_path / "copies")}.items():
            monkeypatch.setenv(name, value)
        client._client.cache_clear()  # of another test's server
        yield server
        client._client.cache_clear()


@pytest.mark.slow
def test_index_and_evaluate_lose_a_node_each_and_no_byte(nodes: Nodes, tmp_path: Path, bucket: ObjectServer) -> None:
    store = store_place(f"s3://{bucket.bucket}/store")
    corpus, file = own_files(nodes.driver)
    halt = tmp_path / "halt"
    environment = {
        **nodes.environment,
        **bucket.environment,
        "VITALFEW_TEST_HALT": str(halt),
        "VITALFEW_CACHE": str(tmp_path / "copies"),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PYTHONPATH": str(ROOT),
    }
    commands = [
        ["index", corpus, "--name", "test", "--set", f"encode.encoder={ENCODER}", "--set", "load.shard_passages=4"],
        ["evaluate", str(file)],
    ]
    for command in commands:
        nodes.replace()
        halt.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-m", "vitalfew.flows.cli", *command, "--store", str(store)],
            cwd=nodes.driver,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            all_halted(nodes, halt, process)
            nodes.kill(nodes.raylets[1])
            subprocess.run(["rm", "-r", str(halt)], check=True)
            output, _ = process.communicate(timeout=900)
        finally:
            process.kill()
        assert process.returncode == 0, output
        assert "A worker was lost" in output
        lines = re.sub(r"\s+", " ", output)  # a terminal of 80 columns breaks them
        assert re.search(r"encode(_questions)?: done, [^:]*, 3 nodes", lines), output
    whole = tmp_path / "whole"
    index(whole, corpus, encode={"encoder": ENCODER}, load={"shard_passages": 4}, bm25={"enabled": True})
    graph(evaluation(whole, yaml.safe_load(file.read_text()))).run(run_serially)
    assert objects_contents(store) == contents(whole)
    assert [run.state for run in read_runs(store)] == ["completed", "completed"]
    assert sum("/" in node for (node,) in sql(store, "SELECT DISTINCT node FROM costs")) >= 3
    key = bucket.environment["AWS_SECRET_ACCESS_KEY"]  # is not where Ray keeps its logs
    assert subprocess.run(["grep", "-rqs", key, nodes.driver.parent]).returncode == 1


def own_files(folder: Path) -> tuple[str, Path]:
    """What only the machine has where the commands run: a corpus with questions, and an experiment with its prompt."""
    corpus, prompt, file = folder / "towns.json", folder / "ask.jinja", folder / "trial.yaml"
    towns(corpus, [f"Town {number}" for number in range(24)])
    prompt.write_text("{% for context in contexts %}{{ context }}\n{% endfor %}{{ question }}")
    file.write_text(EVALUATION.format(prompt=prompt))
    return f"squad:{corpus}", file


def all_halted(nodes: Nodes, halt: Path, process: "subprocess.Popen[str]") -> None:
    """Wait until every node is in the middle of its work."""

    def busy() -> bool:
        if process.poll() is not None:
            raise AssertionError(process.communicate()[0])
        return {psutil.Process(int(worker.name)).ppid() for worker in halt.iterdir()} >= {*nodes.raylets}

    wait_for(busy)


def test_the_folder_of_a_killed_process_goes_with_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "t")
    says = "from vitalfew.storage.files import this_process; print(this_process())"
    ended = subprocess.run([sys.executable, "-c", says], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name, process in {"ended": ended, "works": files.this_process(), "elsewhere": "0123456789ab-1-1"}.items():
        (tmp_path / f"ray-{name}" / "r").mkdir(parents=True)
        (tmp_path / f"ray-{name}" / "process").write_text(process.strip())
    (tmp_path / "ray-of-another-program").mkdir()
    with ray_pool._local(Execution()) as settings:
        started = Path(settings["_temp_dir"]).parent
        assert stat.S_IMODE(started.stat().st_mode) == 0o700
        assert (started / "process").read_text() == files.this_process()
        left = {folder.name for folder in tmp_path.iterdir()} - {started.name}
        assert left == {"ray-works", "ray-elsewhere", "ray-of-another-program"}
    assert not started.exists()


def test_a_ray_that_a_busy_machine_was_too_slow_for_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray gives its own processes 30 s. What it had started ends first."""
    left = list[subprocess.Popen[bytes]]()

    def init(_temp_dir: str, **settings: object) -> None:
        assert all(process.poll() is not None for process in left)
        if len(left) == 2:
            raise RuntimeError("another fault")
        left.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(900)", _temp_dir]))
        raise RuntimeError("The current node timed out during startup.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_pool.ray, "init", init)
    with pytest.raises(RuntimeError, match="another fault"), ray_pool.ray_cluster(Execution(store=Path("store"))):
        pass
    assert len(left) == 2


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
    _, left = psutil.wait_procs([one for one in family if one not in agents], timeout=900)
    for one in (*agents, *left):
        one.kill()
    subprocess.run(["rm", "-rf", own], check=True)
    assert not left
    assert len(agents) <= 2
