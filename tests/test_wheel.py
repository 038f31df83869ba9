"""The built wheel carries every file of the packages, and runs in an empty directory outside the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.own_files import write_own_files, write_own_packages

ROOT = Path(__file__).parent.parent
PACKAGES = ("configs", "flows", "storage", "tasks")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of what git tracks, and of nothing that a build left in the checkout."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in _tracked("."):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name, follow_symlinks=False)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(built), str(source))
    (path,) = built.glob("vitalfew-*.whl")
    return path


def test_every_tracked_file_travels(wheel: Path) -> None:
    """Prompts, experiments, recipes, papers, corpora, prices, questions, weights, templates and licences."""
    inside = zipfile.ZipFile(wheel).namelist()
    links = {f"vitalfew/{name}" for name in PACKAGES}
    expected = {f"vitalfew/{name}" for name in _tracked(*PACKAGES)} | {*_tracked("vitalfew")} - links
    assert {name for name in inside if ".dist-info/" not in name} == expected
    assert {name.rpartition("/")[2] for name in inside if ".dist-info/licenses/" in name} == {"LICENSE", "NOTICE"}


def test_the_wheel_runs_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, which borrows the libraries and not the checkout."""
    environment, empty = tmp_path / "environment", tmp_path / "empty"
    empty.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    commands, (site,) = environment / "bin", environment.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    _pip("--python", str(commands / "python"), "install", "--no-deps", "--no-index", "--ignore-installed", str(wheel))

    def run(*command: str, folder: Path = empty) -> str:
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
        variables["XDG_CACHE_HOME"] = str(tmp_path / "cache")  # a new user's: without SmolLM2
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    write_own_files(empty)
    run(str(commands / "vitalfew"), "index", "folder:handbook", "--name", "handbook", "--runner", "serial")
    asked = ("Who approves a trip abroad?", "quickstart:ParetoRAG", "--index", "handbook")
    assert "director" in run(str(commands / "vitalfew"), "answer", *asked)

    # A project whose own packages have the names of our folders, from the command line and as a library.
    project = tmp_path / "project"
    write_own_packages(project)
    assert "ParetoRAG" in run(str(commands / "vitalfew"), "methods", "core_context", folder=project)
    names = [f"vitalfew.{name}" for name in PACKAGES]
    shown = ", ".join(["flows.__file__", "vitalfew.__version__", *(f"{name}.__file__" for name in names)])
    script = f"import flows, vitalfew, {', '.join(names)}; print({shown})"
    own, version, *ours = run(str(commands / "python"), "-c", script, folder=project).split()
    assert Path(own).is_relative_to(project)
    assert all(Path(each).is_relative_to(site) for each in ours)
    assert version in wheel.name


def _tracked(*paths: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], check=True)
