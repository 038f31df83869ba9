"""The tree keeps its order: imports go one way, Prefect and Ray stay in flows/, no file or function is long."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORDER = ("configs", "storage", "models", "methods", "verbs", "pipelines", "flows", "cli")
"""Each may import itself and what stands before it. Methods are the folders of tasks/, verbs its files and probing/."""
ALLOWED = {name: set(ORDER[: place + 1]) for place, name in enumerate(ORDER)} | {
    # The registry names methods and imports none of them, so that methods may look others up in it.
    "registry": {"registry", "configs"},
    # A report is of a finished run: what was stored of it, and the methods' own words and pure functions.
    "reports": {"reports", "methods", "models", "registry", "storage", "configs"},
}
for name in ("methods", "verbs", "pipelines", "flows", "cli"):
    ALLOWED[name].add("registry")
for name in ("verbs", "pipelines", "flows", "cli"):
    ALLOWED[name].add("reports")
MOST_LINES, MOST_IN_FUNCTION = 300, 45
TOP = {"flows": 12, "tasks": 20}
"""Files at the top of a folder, at most, besides its `__init__.py`."""


def layer(module: str) -> str | None:
    parts = module.split(".")
    match parts[0]:
        case "configs" | "storage":
            return parts[0]
        case "tasks" if parts[1:2] == ["registry"]:
            return "registry"
        case "tasks" if parts[1:2] in (["models"], ["reports"]):
            return parts[1]
        case "tasks" if parts[1:2] == ["probing"]:  # stages that an evaluation has where its settings ask for them
            return "verbs"
        case "tasks":
            return "methods" if len(parts) > 1 and (ROOT / "tasks" / parts[1]).is_dir() else "verbs"
        case "flows":
            return parts[1] if parts[1:2] in (["pipelines"], ["cli"]) else "flows"
    return None


def imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            # `from tasks import load` imports a module as much as `import tasks.load` does
            modules = [f"{node.module}.{alias.name}" for alias in node.names if is_module(node.module, alias.name)]
            names += modules or [node.module]
    return names


def is_module(package: str, name: str) -> bool:
    place = ROOT.joinpath(*package.split("."), name)
    return place.is_dir() or place.with_suffix(".py").exists()


def modules() -> list[Path]:
    return [path for top in ("configs", "storage", "tasks", "flows") for path in sorted((ROOT / top).rglob("*.py"))]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


each_module = pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))


@each_module
def test_imports_go_one_way(path: Path) -> None:
    own = layer(name_of(path))
    assert own is not None
    wrong = [name for name in imports(path) if (other := layer(name)) and other not in ALLOWED[own]]
    assert not wrong, f"{path.relative_to(ROOT)} ({own}) imports {wrong}"


@each_module
def test_only_flows_know_prefect_and_only_its_pool_knows_ray(path: Path) -> None:
    own, name = layer(name_of(path)), str(path.relative_to(ROOT))
    frameworks = {each.split(".")[0] for each in imports(path)} & {"prefect", "ray"}
    allowed = {"ray"} if name == "flows/ray_pool.py" else {"prefect"} if own == "flows" else set()
    assert frameworks <= allowed, f"{name} imports {frameworks - allowed}"


def test_no_import_circle() -> None:
    graph = {name_of(path): {name for name in imports(path) if layer(name)} for path in modules()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " → ".join([*trail[trail.index(module) :], module])
        if module not in done:
            for other in sorted(graph.get(module, ())):
                visit(other, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@each_module
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES, f"{path.relative_to(ROOT)}: {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= MOST_IN_FUNCTION, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines"


@pytest.mark.parametrize("folder", sorted(TOP))
def test_the_top_of_a_folder_is_short(folder: str) -> None:
    files = sorted(path.name for path in (ROOT / folder).glob("*.py") if path.stem != "__init__")
    assert len(files) <= TOP[folder], f"{folder}/ has {len(files)} files: {files}"


def test_every_registered_method_can_be_imported() -> None:
    from tasks.registry import METHODS, resolve

    for kind, names in METHODS.items():
        for name in names:
            assert (resolve(kind, name).__doc__ or "").strip(), f"{kind} {name} has no docstring"
