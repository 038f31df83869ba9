"""A corpus that Ray's workers index has the same bytes as one that a single process indexes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden.surface import ROOT, results, sets, tables
from tests.support.own_files import write_own_files

pytestmark = pytest.mark.slow

SETTINGS = ("encode.precision=fp32", "load.shard_passages=5", "bm25.enabled=true", "index.type=sq8")


def _index(folder: Path, runner: str, workers: int) -> dict[str, str]:
    store = folder / runner
    words = [*sets(*SETTINGS), "--runner", runner, "--workers", str(workers), "--store", str(store)]
    command = [sys.executable, "-m", "vitalfew.flows.cli", "index", f"squad:{folder}/mine.json", "--name", "towns"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *words], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout
    return results(store)


def test_cluster(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    write_own_files(tmp_path)
    alone, together = _index(tmp_path, "serial", 1), _index(tmp_path, "ray", 2)
    golden("cluster.txt", f"{tables(alone)}\nthe same bytes: {alone == together}")
