"""What import-linter's contracts and ruff's rules (pyproject.toml) cannot say about the order of the tree."""

import ast
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("configs", "flows", "storage", "tasks")
TOP = {"flows": 12, "tasks": 20}
"""Files at the top of a folder, at most, besides its `__init__.py`."""


def test_no_import_circle() -> None:
    graph = grimp.build_graph("vitalfew", cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imported) > 300
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the modules of a circle


def test_no_public_class_name_twice() -> None:
    trees = (ast.parse(path.read_text()) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    names = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, times in names.items() if times > 1 and not name.startswith("_")] == []


@pytest.mark.parametrize("folder", sorted(TOP))
def test_the_top_of_a_folder_is_short(folder: str) -> None:
    files = sorted(path.name for path in (ROOT / folder).glob("*.py") if path.stem != "__init__")
    assert len(files) <= TOP[folder], f"{folder}/ has {len(files)} files: {files}"


def test_every_registered_method_can_be_imported() -> None:
    from vitalfew.tasks.registry import METHODS, resolve

    for kind, names in METHODS.items():
        for name in names:
            assert (resolve(kind, name).__doc__ or "").strip(), f"{kind} {name} has no docstring"
