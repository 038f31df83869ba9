"""Nothing but storage/files opens, lists, writes, renames or removes anything in a store."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]

NO_STORE = {
    "configs/": "settings: files of the package and of the user",
    "storage/files/": "the seam",
    "tasks/datasets/": "sources: the user's own files",
    "tasks/models/": "models: directories of weights on this machine",
    "tasks/trainers/bert.py": "the titles that lie beside a reader's weights",
    "tasks/generators/prompts.py": "prompts: templates of the package and of the user",
    "tasks/splitters/propositions.py": "the user's file of propositions",
    "tasks/reports/significance.py": "the user's table of scores",
    "tasks/reports/trec.py": "the user's files of rankings and judgements",
    "flows/pipelines/named.py": "configs/corpora and configs/recipes, and the user's own",
    "flows/pipelines/experiments.py": "configs/experiments and the user's own",
    "flows/cli/start.py": "the user's folder of documents",
    "flows/serve.py": "what Prefect's processes say to each other, in their home",
}
"""What works on other files than a store's, and on which."""

ALLOWED = {
    "flows/cli/terminal.py": {"os.open"},  # the null device
    "tasks/reports/shown/rows.py": {"pq.ParquetWriter"},  # to a file that is open
    "tasks/reports/papers.py": {"path.exists"},  # configs/papers
    "tasks/stage.py": {"connection.from_parquet"},  # of local copies
    "storage/catalog/database.py": {"duckdb.connect"},  # in a folder of its own, before it is the store's
    "flows/ray_pool.py": {  # Ray's sockets and logs
        "shutil.rmtree", "Path(gettempdir()).glob", "left.read_text", "folder.lstat",
    },
    "flows/server/processes.py": {"self.log(name).read_text"},  # the output of Prefect's processes
    "storage/costs.py": {"path.read_text"},  # configs/prices.yaml, or the user's
    "storage/usage.py": {  # Linux's /proc
        "(_PROC / number / 'clear_refs').write_text", "(_PROC / number / 'status').read_text",
        "(_PROC / 'self' / 'task').glob", "file.read_text",
    },
    "tasks/reports/shown/page.py": {"_TEMPLATE.read_text"},  # of the package
}  # fmt: skip
"""Single calls, by module, that concern no store."""

METHODS = {
    "read_text", "write_text", "read_bytes", "write_bytes", "exists", "is_dir", "is_file", "is_symlink", "stat",
    "lstat", "glob", "rglob", "iterdir", "walk", "unlink", "mkdir", "rmdir", "touch", "rename", "resolve", "samefile",
    "symlink_to", "hardlink_to", "readlink", "chmod", "tofile", "from_parquet", "read_parquet", "write_parquet",
    "scan_csv", "scan_ipc", "scan_ndjson", "scan_parquet", "sink_csv", "sink_ipc", "sink_parquet", "write_ipc",
}  # fmt: skip
"""Of paths, arrays, frames and DuckDB's connections."""

MODULES = (
    "os.path.exists", "os.path.get", "os.path.is", "os.path.realpath", "shutil.", "glob.", "fcntl.", "mmap.",
    "pyarrow.parquet.", "pyarrow.ipc.", "pyarrow.memory_map", "pyarrow.dataset.", "pyarrow.OSFile",
    "faiss.read_", "faiss.write_", "safetensors.", "torch.load", "torch.save",
)  # fmt: skip
"""How functions begin that reach files."""
FUNCTIONS = {
    "open", "io.open", "duckdb.connect", "duckdb.read_parquet", "duckdb.from_parquet",
    *(f"os.{name}" for name in (
        "access", "chmod", "fsync", "listdir", "lstat", "makedirs", "mkdir", "open", "remove", "rename", "replace",
        "rmdir", "scandir", "stat", "symlink", "truncate", "unlink", "utime", "walk",
    )),
    *(f"numpy.{name}" for name in ("fromfile", "load", "loadtxt", "memmap", "save", "savetxt", "savez")),
}  # fmt: skip


def violations(source: str) -> Iterator[tuple[int, str]]:
    """Line and callee of what reaches a file by itself, and of an import that reaches behind the seam."""
    nodes = [*ast.walk(ast.parse(source))]
    names: dict[str, str] = {}  # `pq` stands for pyarrow.parquet, `rmtree` for shutil.rmtree
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            if node.module.startswith("vitalfew.storage.files."):
                yield node.lineno, f"from {node.module}"
    for node in nodes:
        if isinstance(node, ast.Call) and reaches_a_file(node, names) and not given_a_local_path(node):
            yield node.lineno, ast.unparse(node.func)


def reaches_a_file(call: ast.Call, names: dict[str, str]) -> bool:
    first, _, rest = ast.unparse(call.func).partition(".")
    callee = f"{names.get(first, first)}.{rest}".removesuffix(".")
    if callee in FUNCTIONS or callee.startswith(MODULES):
        return callee != "duckdb.connect" or bool(call.args)  # without a file it is in memory
    if not isinstance(call.func, ast.Attribute) or callee.startswith("vitalfew.storage.files."):
        return False
    arguments = [*call.args, *call.keywords]
    match call.func.attr:
        case "open":  # of a stage, or of an artifact's shard; a path's takes a mode or nothing
            of_stage = ast.unparse(call.func.value) in ("self", "stage", "super()")
            return not (of_stage and not arguments) and not isinstance(next(iter(arguments), None), ast.Name)
        case "replace":  # a text's takes two
            return len(arguments) == 1 and isinstance(arguments[0], ast.expr)
        case "rename":  # a frame's takes a dictionary or a function
            return not isinstance(next(iter(arguments), None), (ast.Dict, ast.DictComp, ast.Lambda))
        case name:
            return name in METHODS


def given_a_local_path(call: ast.Call) -> bool:
    """Whether it works on `files.local(…)`, or on the `temporary` file that `files.write_atomically` gives."""
    named = any(isinstance(node, ast.Name) and node.id == "temporary" for node in ast.walk(call))
    return named or "files.local(" in ast.unparse(call)


def test_a_store_is_reached_through_the_seam() -> None:
    """By no other way: a file of the product that opens, lists or writes one is named with the line and the call."""
    paths = [path for top in ("configs", "storage", "tasks", "flows") for path in sorted((ROOT / top).rglob("*.py"))]
    wrong = [
        f"{name}:{line}: {callee}"
        for path in paths
        if not (name := path.relative_to(ROOT).as_posix()).startswith(tuple(NO_STORE))
        for line, callee in violations(path.read_text(encoding="utf-8"))
        if callee not in ALLOWED.get(name, ())
    ]
    assert not wrong, "only storage/files may reach files:\n" + "\n".join(wrong)
