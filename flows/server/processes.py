"""Processes that end with this one: started, with one log per process, watched, and ended the last first."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from vitalfew.flows.server.access import PATIENCE
from vitalfew.storage import files

GRACE = 20.0
"""Seconds that a process has to end by itself."""


class ProcessEnded(RuntimeError):
    """A process ended or did not start. The message names it and has the end of its log."""


class Processes:
    """Processes by name. `folder` gets their logs, `NAME.log`; `root` is their working directory. A process ends when
    its standard input does."""

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self.folder, self.root = folder, root
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: int | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Start a process in a new session, so that Ctrl-C reaches only this process, which then ends the others in
        order. Its standard input is a pipe that closes when this process ends in any way. `output`: PIPE, if `line`
        reads it; else the log has it."""
        log = files.open_private(self.log(name))
        self._logs.append(log)
        self.processes[name] = subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output or log,
            stderr=log,
            pass_fds=descriptors,
            start_new_session=True,
        )

    def line(self, name: str) -> str:
        """Wait for the next line that a process prints. Raises ProcessEnded if it ends without one."""
        stream = self.processes[name].stdout
        assert stream is not None
        if line := stream.readline().decode().strip():
            return line
        self.processes[name].wait()
        raise self.ended(name)

    def until(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until the condition holds. Raises ProcessEnded if a process ends before, TimeoutError after five
        minutes."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} was not ready in {PATIENCE:.0f} s")
            time.sleep(0.1)

    def check(self) -> None:
        """Raises ProcessEnded if a process has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise self.ended(name)

    def ended(self, name: str) -> ProcessEnded:
        status = self.processes[name].returncode
        return ProcessEnded(f"{name} ended (status {status}). Its last output:\n{self.last_words(name) or 'nothing'}")

    def last_words(self, name: str, lines: int = 20) -> str:
        """The end of a log."""
        return "\n".join(self.log(name).read_text(errors="replace").strip().splitlines()[-lines:])

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def end(self) -> None:
        """End all processes with their descendants, the last first; those that do not end by themselves are killed."""
        for name, process in reversed(self.processes.items()):
            family = _family(process.pid)
            self.ask_to_end(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.grace(name))
            if process.poll() is None:  # the number of a process that has ended may be another's now
                family += _family(process.pid)
            for member in [*family, *_session(process.pid)]:
                with suppress(psutil.NoSuchProcess):
                    member.kill()
            process.wait()
            psutil.wait_procs(family, timeout=GRACE)
            if process.stdout:
                process.stdout.close()
        for log in self._logs:
            log.close()

    def ask_to_end(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stdin:
            process.stdin.close()

    def grace(self, name: str) -> float:
        """Seconds that a process has to end by itself."""
        return GRACE


def _family(pid: int) -> list[psutil.Process]:
    """A process and all its descendants."""
    with suppress(psutil.NoSuchProcess):
        return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return []


def _session(leader: int) -> list[psutil.Process]:
    """The processes that are left of a session, orphans included."""
    members = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader:
                members.append(process)
    return members
