"""GPUs by configuration. No GPU is needed: what PyTorch would say of one is put in its mouth, and Ray counts one."""

import os
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
import torch

from tests.support.indexing import index, parameters, sql
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import EncodeConfig, IndexCorpus
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import StageProgress, run_serially
from vitalfew.flows.ray_pool import Workers, most_workers
from vitalfew.tasks.encode import Encode, make_encoder
from vitalfew.tasks.models import device
from vitalfew.tasks.models.device import choose_device, dtype_of, is_fast_in_bf16, precision_name

CUDA = torch.device("cuda")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it with whether PyTorch is to see a GPU, and whether that one knows bf16."""

    def pretend(available: bool, bf16: bool = True) -> None:
        monkeypatch.setattr(device, "SIGNS", ("/dev",))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
        # Emulated, every GPU knows it: only the native kind counts.
        monkeypatch.setattr(
            torch.cuda, "is_bf16_supported", lambda including_emulation=True: bf16 or including_emulation
        )

    return pretend


def test_auto_takes_the_gpu_that_this_process_sees(gpu: Any) -> None:
    gpu(available=True)
    assert choose_device("auto") == CUDA
    assert choose_device("cpu").type == "cpu"
    gpu(available=False)
    assert choose_device("auto").type == "cpu"
    assert choose_device("cuda") == CUDA  # the workers have one


@pytest.mark.parametrize(("bf16", "dtype"), [(True, torch.bfloat16), (False, torch.float16)])
def test_precision_on_a_gpu(gpu: Any, bf16: bool, dtype: torch.dtype) -> None:
    gpu(available=True, bf16=bf16)
    assert dtype_of(precision_name("auto", "cuda")) == dtype
    assert dtype_of(precision_name("fp32", "cuda")) == torch.float32
    assert is_fast_in_bf16() == bf16


def test_a_worker_without_a_gpu_says_so(gpu: Any) -> None:
    gpu(available=False)
    with pytest.raises(ConfigError, match=r"sees no GPU.*encode\.device=cpu"):
        make_encoder(EncodeConfig(device="cuda")).encode(["A text."])


def stage(store: Path, **settings: Any) -> Encode:
    [found] = [one for one in graph(_parameters(store, **settings)).stages if isinstance(one, Encode)]
    return found


def _parameters(store: Path, **settings: Any) -> IndexCorpus:
    return parameters(store, **{"encode": {"encoder": "tests.support.fakes:GpuEncoder"}} | settings)


def test_num_gpus_reaches_the_stage(tmp_path: Path) -> None:
    assert stage(tmp_path).num_gpus == 1
    assert stage(tmp_path, num_gpus=0.25).num_gpus == 0.25
    assert stage(tmp_path, num_gpus=0.25).artifact == stage(tmp_path).artifact
    assert stage(tmp_path, encode={"encoder": "tests.support.fakes:HashEncoder"}).num_gpus == 0
    with pytest.raises(ConfigError, match=r"num_gpus=0\.5.*encode\.device=cuda"):
        stage(tmp_path, num_gpus=0.5, encode={"encoder": "tests.support.fakes:HashEncoder"})
    with pytest.raises(ConfigError, match="num_gpus"):
        stage(tmp_path, num_gpus=2)


def test_no_more_workers_than_gpus_have_room_for(tmp_path: Path) -> None:
    for num_gpus, workers, most in ((None, None, 2), (0.3, None, 6), (0.25, 3, 3)):
        assert most_workers(stage(tmp_path, num_gpus=num_gpus), workers, {"CPU": 16.0, "GPU": 2.0}) == most


def test_the_ledger_counts_the_share_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALFEW_TEST_MARK", str(tmp_path / "mark"))
    index(tmp_path / "store", encode={"encoder": "tests.support.fakes:GpuEncoder"}, num_gpus=0.25)
    query = "SELECT stage, sum(gpu_seconds) / sum(wall_seconds) FROM costs WHERE shard >= 0 GROUP BY 1"
    shares = dict(sql(tmp_path / "store", query))
    assert (shares["encode"], shares["split"]) == (pytest.approx(0.25), 0)


@pytest.mark.slow
def test_ray_gives_each_worker_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    mark = tmp_path / "mark"
    monkeypatch.setenv("VITALFEW_TEST_MARK", str(mark))
    settings = _parameters(tmp_path / "store", num_gpus=0.5)
    *before, encode, _ = graph(settings).stages
    for one in before:
        run_serially([one], "run")
    os.environ.setdefault("RAY_AUTH_TOKEN", token_hex(32))  # for all of this process, as in flows/ray_pool.py
    address = {"address": "local", "_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}
    ray.init(num_cpus=2, num_gpus=1, object_store_memory=80 << 20, **address)
    try:
        with StageProgress("encode") as progress:
            manifest = Workers(None).run(encode, "run", progress)
    finally:
        ray.shutdown()
    assert manifest.rows["vectors"] > 0
    seen = {tuple(line.split()) for line in mark.read_text().splitlines()}
    assert {devices for _, devices in seen} == {"0"}
