"""The frame of a stage: what is removed, and under which lock."""

import subprocess
import sys
from pathlib import Path

import pytest

from configs.schema import LoadConfig
from storage.artifacts import Manifest
from tasks.load import Load
from tests.support.indexing import SYNTHETIC

HOLD = (
    "import sys; from pathlib import Path; from storage import files\n"
    "with files.locked(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def finished(tmp_path: Path) -> tuple[Load, Manifest]:
    """An artifact that is complete, beside which a kill left its staging."""
    stage = Load(tmp_path, (SYNTHETIC,), LoadConfig(shard_passages=20))
    manifest = stage.run("first")
    (stage.staging / "deep").mkdir(parents=True)
    (stage.staging / "deep" / "file").write_bytes(b"x")
    return stage, manifest


def test_another_process_keeps_its_staging(finished: tuple[Load, Manifest]) -> None:
    """A process that looks whether there is something to do removes nothing of the one that works."""
    stage, manifest = finished
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(stage.artifact.lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as working:
        assert working.stdout
        assert working.stdout.readline() == b"held\n"
        assert stage.manifest() == manifest
        assert (stage.staging / "deep" / "file").exists()
        working.communicate()
    assert stage.manifest() == manifest
    assert not stage.staging.exists()


def test_a_run_keeps_its_own_staging_while_it_works(finished: tuple[Load, Manifest]) -> None:
    stage, manifest = finished
    with stage.artifact.locked():
        assert stage.manifest() == manifest
        assert stage.staging.exists()
    assert stage.manifest() == manifest
    assert not stage.staging.exists()
