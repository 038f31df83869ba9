"""What golden tests share: the command line, a text without what differs from run to run, one store, one server.

Nothing here knows what lies below the command line, the HTTP interface and SQL.
"""

import atexit
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path

from typer.testing import CliRunner

from tests.support.own_files import write_own_files
from tests.support.shared import shared
from vitalfew.flows.cli.main import app
from vitalfew.flows.cli.terminal import out

ROOT = Path(__file__).parents[2]
WIDTH = "160"
"""Columns of the terminal that the command line writes to."""

METHODS = ("ParetoRAG", "PFE")
"""Those of `SHAPES`; the first is the one that agents ask."""
SHAPES = """
questions: {sample: 4, batch: 4}
generate: {generator: reader, precision: fp32}
methods:
  ParetoRAG: {retrieve: {retriever: core_context, top_k: 8}, refine: {max_tokens: 40}}
  PFE:
    retrieve: {retriever: passage, top_k: 4}
    refine: {refiner: mmr, top_k: 3}
    generate: {per_context: true}
    critique: {critic: embedded, precision: fp32}
    select: {selector: pareto_ideal}
"""

_CHANGES = (
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}"), "RUN"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?"), "WHEN"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "DAY"),
    (re.compile(r"\b([0-9a-f]{32}|[0-9a-f]{16}|[0-9a-f]{8})\b"), "HASH"),
    (re.compile(r"\d+\.\d+ s of work and \d+\.\d+ USD"), "TIME of work"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "SERVER"),
)


def vitalfew(*words: object, store: Path, status: int = 0, environment: Mapping[str, str] | None = None) -> str:
    """Return all that a command prints, which has to end with this status."""
    given = [*map(str, words), "--store", str(store)]
    out.width, usual = int(WIDTH), out.width  # of the test process: it keeps that with which it began
    try:
        done = CliRunner().invoke(app, given, env={"COLUMNS": WIDTH, **(environment or {})})
    finally:
        out.width = usual
    assert done.exit_code == status, f"{given} ended with {done.exit_code}: {done.output}\n{done.exception!r}"
    return done.output


def sets(*settings: str) -> list[str]:
    """The words `--set KEY=VALUE` of a command."""
    return [word for setting in settings for word in ("--set", setting)]


def index_synthetic(store: Path, dataset: str) -> None:
    """Index generated passages under the name `synthetic`, with keywords."""
    settings = sets("encode.encoder=tests.support.fakes:HashEncoder", "bm25.enabled=true")
    vitalfew("index", f"synthetic:{dataset}", "--name", "synthetic", *settings, "--runner", "serial", store=store)


def steady(text: str, folder: Path) -> str:
    """A text without paths in `folder`, runs, times, fingerprints, ports, and how far columns are apart."""
    text = text.replace(str(folder), "FOLDER")
    for changing, name in _CHANGES:
        text = changing.sub(name, text)
    lines = (re.sub(r"(?<=\S) {2,}", "  ", line).rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def lines_with(text: str, *words: str) -> str:
    """Those lines of a text that have one of these words in them."""
    return "\n".join(line for line in text.splitlines() if any(word in line for word in words))


def columns(text: str, *names: str) -> str:
    """Of the first printed table that has columns with these titles: these columns. Columns are where two blank places
    or more part all lines; the table ends before a line that is not parted like this."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if all(name in line for name in names))
    kept = _cells(lines[first : first + 1])
    for end in range(first + 2, len(lines) + 1):
        rows = _cells(lines[first:end])
        if not lines[end - 1].strip() or not set(names) <= {*rows[0]}:
            break
        kept = rows
    wanted = [kept[0].index(name) for name in names]
    return "\n".join("  ".join(row[place] for place in wanted).rstrip() for row in kept)


def _cells(table: list[str]) -> list[list[str]]:
    width = max(map(len, table))
    parted = "".join(" " if all(line.ljust(width)[place] == " " for line in table) else "x" for place in range(width))
    return [
        [line[match.start() : match.end()].strip() for match in re.finditer(r"x+(?: x+)*", parted)] for line in table
    ]


def results(store: Path) -> dict[str, str]:
    """Checksums, by path, of a directory's files that have no seconds in them: texts, vectors, indexes, answers,
    scores, weights."""
    timed = ("costs", "quotes", "readings", "refinements", "reports")
    found = {}
    for path in sorted([*store.glob("*/*/*"), *store.glob("**/weights/*.safetensors")]):
        table = path.relative_to(store).parts[0]
        is_step = table == "training_steps" and path.suffix == ".parquet"
        if path.suffix in (".parquet", ".faiss", ".npy", ".npz", ".safetensors") and table not in timed and not is_step:
            found[str(path.relative_to(store))] = blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return found


def tables(found: Mapping[str, str]) -> str:
    """The names of the tables that have such files."""
    return ", ".join(sorted({name.partition("/")[0] for name in found}))


def _made(folder: Path) -> None:
    folder.mkdir()
    write_own_files(folder)
    (folder / "shapes.yaml").write_text(SHAPES)
    store, serially = folder / "store", ("--runner", "serial")
    precise = sets("encode.precision=fp32")
    vitalfew("index", f"squad:{folder}/mine.json", "--name", "towns", *precise, *serially, store=store)
    vitalfew("evaluate", folder / "shapes.yaml", "--index", "towns", *serially, store=store)


def towns() -> Path:
    """A folder with 20 articles about towns, `shapes.yaml`, and a `store` with the index `towns` and the evaluation of
    these methods, made once in a test run. Read it."""
    return shared("golden-towns", _made)


@cache
def server() -> str:
    """The address of the methods of `shapes.yaml`, served by a process that ends with this one."""
    folder = towns()
    command = [sys.executable, "-m", "vitalfew.flows.cli", "serve"]
    command += [f"{folder / 'shapes.yaml'}:{method}" for method in METHODS]
    command += ["--index", "towns", "--port", "0", "--store", str(folder / "store")]
    environment = {**os.environ, "VITALFEW_SERVE_KEYS": "", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    atexit.register(process.wait)
    atexit.register(process.send_signal, signal.SIGTERM)
    assert process.stdout
    printed = ""
    for line in process.stdout:
        printed += line
        if line.startswith("Ready"):
            break
    found = re.search(r"Address: (http://\S+)", printed)
    assert found, printed
    return found[1]
