"""A corpus that Ray's workers index has the same bytes as one that a single process indexes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden.surface import ROOT, results, sets, tables, vitalfew
from tests.support.own_files import write_own_files

pytestmark = pytest.mark.slow

SETTINGS = ("encode.precision=fp32", "load.shard_passages=5", "bm25.enabled=true", "index.type=sq8")


def _by_ray(words: list[str], folder: Path) -> None:
    """In a process of its own: Ray changes the environment of the one that starts it."""
    command = [sys.executable, "-m", "vitalfew.flows.cli", *words, "--runner", "ray", "--workers", "2"]
    done = subprocess.run(
        [*command, "--store", str(folder / "ray")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout


def test_cluster(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    write_own_files(tmp_path)
    words = ["index", f"squad:{tmp_path}/mine.json", "--name", "towns", *sets(*SETTINGS)]
    vitalfew(*words, "--runner", "serial", store=tmp_path / "serial")
    _by_ray(words, tmp_path)
    alone, together = results(tmp_path / "serial"), results(tmp_path / "ray")
    golden("cluster.txt", f"{tables(alone)}\nthe same bytes: {alone == together}")
