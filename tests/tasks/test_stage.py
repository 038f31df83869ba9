"""The frame of a stage: what is removed, and under which lock; what it works with is what was planned."""

import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.evaluating import copied
from tests.support.indexing import SYNTHETIC, parameters
from tests.support.shared import indexed
from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.loading import build
from vitalfew.configs.schema import LoadConfig
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.files import Damaged
from vitalfew.tasks.load import Load
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.weights import shipped
from vitalfew.tasks.registry import kept, with_options
from vitalfew.tasks.stage import MethodChanged, Stage

HOLD = (
    "import sys; from pathlib import Path; from vitalfew.storage import files\n"
    "with files.locked(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
)


def test_another_process_keeps_its_staging(tmp_path: Path) -> None:
    """A process that looks whether there is something to do removes nothing of the one that works."""
    stage = Load(tmp_path, (SYNTHETIC,), LoadConfig(shard_passages=20))
    manifest = stage.run("first")
    (stage.staging / "deep").mkdir(parents=True)  # as a kill leaves it
    with stage.artifact.locked():
        assert stage.manifest() == manifest
        assert stage.staging.exists()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(stage.artifact.lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as working:
        assert working.stdout
        assert working.stdout.readline() == b"held\n"
        assert stage.manifest() == manifest
        assert (stage.staging / "deep").exists()
        working.communicate()
    assert stage.manifest() == manifest
    assert not stage.staging.exists()


def change(weights: Path) -> None:
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)


def test_weights_that_change_after_the_plan_are_an_error_that_names_them(tmp_path: Path) -> None:
    """With the stages as Ray's workers get them. Of what was generated with other weights nothing is stored."""
    copied(indexed(bm25={"enabled": True}), tmp_path / "store")
    reader = tmp_path / "reader"
    shutil.copytree(shipped("reader"), reader)
    settings = {
        "index": "test",
        "generate": {"generator": "reader", "model": str(reader)},
        "methods": {"keywords": {"retrieve": {"retriever": "bm25", "top_k": 2}}},
    }
    plan = graph(evaluation("trial", settings, {"store": tmp_path / "store", "runner": "serial"}))

    def execute(stages: Sequence[Stage], run_id: str) -> list[Manifest]:
        if stages[0].name == "generate":
            weights = reader / "adapter.safetensors"
            dates = (weights.stat().st_atime_ns, weights.stat().st_mtime_ns)
            change(weights)
            os.utime(weights, ns=dates)
        return run_serially([pickle.loads(pickle.dumps(stage)) for stage in stages], run_id)

    with pytest.raises(MethodChanged, match=r"stage generate: generator/files/adapter\.safetensors changed"):
        plan.run(execute)
    assert not [*(tmp_path / "store").glob("candidates/*/*.parquet")]


@pytest.mark.parametrize("size", [0, 100])
def test_weights_that_are_cut_short_are_named_before_work_begins(tmp_path: Path, size: int) -> None:
    reader = tmp_path / "reader"
    shutil.copytree(shipped("reader"), reader)
    weights = reader / "adapter.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    settings = with_options(build(GenerateConfig, {"generator": "reader", "model": str(reader)}), "generate")
    with pytest.raises(UnsupportedModel, match=rf"{weights} is damaged .*: copy or download the model again"):
        kept(settings, "generate")


def test_a_model_whose_files_change_is_loaded_again(tmp_path: Path) -> None:
    """By a process that goes on, as a notebook's does."""
    reader = tmp_path / "reader"
    shutil.copytree(shipped("reader"), reader)
    settings = with_options(build(GenerateConfig, {"generator": "reader", "model": str(reader)}), "generate")
    first = kept(settings, "generate")
    assert kept(settings, "generate") is first
    change(reader / "adapter.safetensors")
    assert kept(settings, "generate") is not first


def go_on(stage: Stage) -> None:
    stage.open()
    stage.run_shard(0, "run", lambda rows, tokens: None)


def test_a_flipped_bit_in_what_was_prepared_is_seen(tmp_path: Path) -> None:
    """Size and date stay; a run that goes on would else build all its shards from it."""
    flipped = []
    for stage in graph(parameters(tmp_path, bm25={"enabled": True}, index={"type": "sq8"})).stages:
        stage.run_preparation("run", lambda rows, tokens: None)
        for path in stage.prepared():
            content, dates = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
            changed = bytearray(content)
            changed[len(content) // 2] ^= 1
            path.write_bytes(changed)
            os.utime(path, ns=dates)
            with pytest.raises(Damaged, match=re.escape(f"{path} is damaged")):
                go_on(stage)
            path.write_bytes(content)
            flipped.append(path.name)
        stage.run("run")
    assert {"parameters.json", "reuse.json", "sentence.template.faiss", "sentence.probes.npz"} <= {*flipped}
    assert "sentence.vocabulary.parquet" in flipped
