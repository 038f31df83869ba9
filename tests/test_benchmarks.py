"""The benchmarks start, and what they invent fits the tables of today."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STARTED = sorted(
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if "def main()" in path.read_text(encoding="utf-8")
)


HELP = """
import runpy, sys
for name in sys.argv[1:]:
    sys.argv = [name, "--help"]
    try:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    except SystemExit as ended:
        print("\\nshown" if not ended.code else f"{name} ended with {ended.code}")
"""


@pytest.mark.slow
def test_every_benchmark_has_help() -> None:
    """In a process of their own, whose sockets one of them changes."""
    command = [sys.executable, "-c", HELP, *STARTED]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines().count("shown") == len(STARTED), done.stdout


@pytest.mark.slow
def test_every_documented_query_answers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.catalog", "1", "--questions", "20"]
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
