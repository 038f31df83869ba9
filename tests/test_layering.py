"""What import-linter's contracts and ruff's rules (pyproject.toml) cannot say about the order of the tree."""

from graphlib import TopologicalSorter

import grimp


def test_no_import_circle() -> None:
    graph = grimp.build_graph("vitalfew", cache_dir=None, exclude_type_checking_imports=True)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imported) > 300
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the modules of a circle


def test_every_registered_method_can_be_imported() -> None:
    from vitalfew.tasks.registry import METHODS, resolve

    for kind, names in METHODS.items():
        for name in names:
            assert (resolve(kind, name).__doc__ or "").strip(), f"{kind} {name} has no docstring"
