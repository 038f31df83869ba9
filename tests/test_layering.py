"""The tree keeps its order: imports go one way, and Prefect and Ray stay in flows/."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What each layer may import. Methods are the folders of tasks/, verbs its files.
ALLOWED = {
    "configs": {"configs"},
    "storage": {"storage", "configs"},
    "methods": {"methods", "storage", "configs"},
    "verbs": {"verbs", "methods", "storage", "configs"},
    "flows": {"flows", "verbs", "methods", "storage", "configs"},
}
FRAMEWORKS = {"prefect", "ray"}
FLOWS = {
    "flows/evaluate.py",
    "flows/evaluate_experiment.py",
    "flows/index_corpus.py",
    "flows/index_datasets.py",
    "flows/re_encode.py",
    "flows/serving.py",
    "flows/shown.py",
    "flows/train_critic.py",
    "flows/train_reader.py",
}


def layer(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] == "tasks":
        return "methods" if len(parts) > 1 and (ROOT / "tasks" / parts[1]).is_dir() else "verbs"
    return parts[0] if parts[0] in ALLOWED else None


def imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module)
            # `from tasks import load` imports a module as much as `import tasks.load` does
            names += [f"{node.module}.{alias.name}" for alias in node.names if node.module == "tasks"]
    return names


def modules() -> list[Path]:
    return [path for top in ("configs", "storage", "tasks", "flows") for path in sorted((ROOT / top).rglob("*.py"))]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = layer(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert own is not None
    wrong = [name for name in imports(path) if (other := layer(name)) and other not in ALLOWED[own]]
    assert not wrong, f"{path.relative_to(ROOT)} ({own}) imports {wrong}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_flows_know_prefect_and_ray(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    found = {each.split(".")[0] for each in imports(path)} & FRAMEWORKS
    allowed = {"flows/stages.py": FRAMEWORKS}.get(name, {"prefect"} if name in FLOWS else set())
    assert found <= allowed, f"{name} imports {found - allowed}"


def test_every_registered_method_can_be_imported() -> None:
    from tasks.registry import METHODS, resolve

    for kind, names in METHODS.items():
        for name in names:
            assert (resolve(kind, name).__doc__ or "").strip(), f"{kind} {name} has no docstring"
