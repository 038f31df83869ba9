"""The commands of the how-to pages that start servers, for real and on fresh ones (slow)."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from tests.support.documents import ROOT, Command, File, steps
from tests.support.own_files import write_own_files, write_own_packages
from tests.support.prefect_ui import PATIENCE, free_port, wait
from vitalfew.storage.runs import index_names, read_runs

pytestmark = pytest.mark.slow


class Terminal:
    """A shell in a folder, as a reader has one: what is exported stays. What does not end is left to run beside it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment, "PATH": path}
        for name in ("PREFECT_HOME", "PREFECT_API_URL", "PREFECT_API_AUTH_STRING"):
            if name not in environment:
                self.environment.pop(name, None)
        self.left: list[subprocess.Popen[bytes]] = []

    def run(self, command: Command, status: int = 0) -> str:
        words = command.words()
        if words[0] == "export":
            self.environment |= Command(" ".join(words[1:])).variables()
            return ""
        done = subprocess.run(
            ["bash", "-c", command.line],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * PATIENCE,
        )
        assert done.returncode == status, f"{command.line}\n{done.stdout}"
        return done.stdout

    def leave(self, command: Command, folder: Path | None = None) -> Path:
        """Start what goes on, in another folder if one is given; the file that it writes to."""
        log = self.folder / f"log{len(self.left)}"
        with log.open("wb") as file:
            process = subprocess.Popen(
                command.words(), cwd=folder or self.folder, env=self.environment, stdout=file, stderr=subprocess.STDOUT
            )
        self.left.append(process)
        return log

    def end(self) -> None:
        """End what was left to run, the last first, with all that it started."""
        for process in reversed(self.left):
            family = [*psutil.Process(process.pid).children(recursive=True), process] if process.poll() is None else []
            process.send_signal(signal.SIGINT)
            _, alive = psutil.wait_procs([psutil.Process(one.pid) for one in family if _lives(one.pid)], timeout=60)
            for one in alive:
                one.kill()
            process.wait(PATIENCE)


def _lives(pid: int) -> bool:
    return psutil.pid_exists(pid)


@contextmanager
def terminal(folder: Path, **environment: str) -> Iterator[Terminal]:
    opened = Terminal(folder, **environment)
    try:
        yield opened
    finally:
        opened.end()


def test_the_page_on_deployments_from_a_fresh_server(tmp_path: Path) -> None:
    """In a project with packages `flows`, `tasks`, … of its own a worker runs a flow."""
    write_own_files(tmp_path)
    write_own_packages(tmp_path)
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / "deploy" / "evaluate.sh", tmp_path / "deploy")
    port = str(free_port())
    own = {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": str(tmp_path), "PREFECT_SERVER_API_PORT": port}
    with terminal(tmp_path, **own) as shell:
        for step in steps(ROOT / "docs" / "how_to" / "deploy.md"):
            if isinstance(step, File):
                (tmp_path / step.name).parent.mkdir(exist_ok=True)
                (tmp_path / step.name).write_text(step.content)
            else:
                _follow(shell, step.on({":4200": f":{port}"}), port)
        assert "notes" in index_names(tmp_path / "store")
        runs = [(run.flow, run.state) for run in read_runs(tmp_path / "store")]
        assert runs == [("index_corpus", "completed"), ("evaluate", "completed")]
        assert "ParetoRAG" in (tmp_path / "report.md").read_text()


def _follow(shell: Terminal, command: Command, port: str) -> None:
    match command.words()[:3]:
        case ["prefect", "server", "start"]:
            shell.environment["PREFECT_HOME"] = str(shell.folder / "prefect")  # of its own, and fresh
            log = shell.leave(command)
            wait(lambda: urlopen(f"http://127.0.0.1:{port}/api/health", timeout=10), log.read_text)
        case ["vitalfew", "deploy", *_]:
            assert "re-encode/notes" in shell.run(command)
        case ["prefect", "worker", "start"]:  # anywhere
            elsewhere = shell.folder / "elsewhere"
            elsewhere.mkdir()
            shell.leave(command, elsewhere)
        case _:
            shell.run(command)
