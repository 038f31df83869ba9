"""docs/extending.md: whoever follows every recipe, in a copy of the tree, gets what its tests want."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<above>[^\n]+)\n```(?:python|yaml)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
NEW = re.compile(r"`(?P<path>[\w/]+\.(?:py|yaml))`")
EDIT = re.compile(r"In `(?P<path>[\w/]+\.py)`, below `(?P<line>[^`]+)`.*:")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git tracks, with links as links."""
    copy = tmp_path_factory.mktemp("tree")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    return copy


def _followed(tree: Path) -> list[str]:
    """Do what the page says; return the tests that it had written."""
    written = []
    for fence in FENCE.finditer((tree / "docs" / "extending.md").read_text(encoding="utf-8")):
        if new := NEW.fullmatch(fence["above"]):
            path = tree / new["path"]
            assert not path.exists(), f"{new['path']} is there already"
            path.write_text(fence["code"], encoding="utf-8")
            written.append(new["path"])
        else:
            edit = EDIT.fullmatch(fence["above"])
            assert edit, f"the line above a block names neither a file nor a place in one: {fence['above']}"
            path = tree / edit["path"]
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            at = next(number for number, line in enumerate(lines, 1) if edit["line"] in line)
            path.write_text("".join([*lines[:at], fence["code"], *lines[at:]]), encoding="utf-8")
    return [name for name in written if name.startswith("tests/")]


@pytest.mark.slow
def test_every_recipe_passes_its_test(tree: Path) -> None:
    tests = _followed(tree)
    assert len(tests) == 16
    tests.append("tests/storage/catalog/test_database.py::test_the_example_of_every_macro_answers_on_any_store")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    for check in (["ruff", "check", "."], ["ruff", "format", "--check", "."]):
        done = subprocess.run([sys.executable, "-m", *check], cwd=tree, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
