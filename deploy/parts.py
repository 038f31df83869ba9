"""The processes of a cluster on one machine: started with a log each, watched, and ended the last first."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

PATIENCE = 300.0
"""Seconds that a part has to start: a busy machine is slow, not broken."""
GRACE = 20.0
"""Seconds that a part has to end by itself."""


class PartEnded(RuntimeError):
    """A part ended, or did not start: the message says which, and how its log ends."""


class Parts:
    """The parts, by name. `folder` gets their logs, `NAME.log`, and what they keep for a time; each ends when its
    standard input does."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int] = ()
    ) -> None:
        """Start a part in a session of its own, so that Ctrl-C reaches this process alone, which ends the parts in
        order. Its standard input is a pipe that closes when this process ends, however it ends."""
        self._logs.append(self.log(name).open("wb"))
        self.processes[name] = subprocess.Popen(
            command,
            cwd=self.root,
            env={**environment, "TMPDIR": str(self.folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._logs[-1],
            pass_fds=descriptors,
            start_new_session=True,
        )

    def line(self, name: str) -> str:
        """The next line that a part prints, which waits for it. Raises PartEnded if it ends without."""
        stream = self.processes[name].stdout
        assert stream is not None
        if line := stream.readline().decode().strip():
            return line
        self.processes[name].wait()
        raise self._ended(name)

    def until(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until the condition holds. Raises PartEnded if a part ends before, TimeoutError after five minutes."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} was not ready in {PATIENCE:.0f} s")
            time.sleep(0.2)

    def check(self) -> None:
        """Raises PartEnded if a part has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise self._ended(name)

    def watch(self) -> None:
        """Go on until a part ends, which raises PartEnded, or Ctrl-C."""
        while True:
            self.check()
            time.sleep(0.5)

    def _ended(self, name: str) -> PartEnded:
        status = self.processes[name].returncode
        return PartEnded(f"{name} ended (status {status}). The last that it said:\n{self.last_words(name)}")

    def last_words(self, name: str) -> str:
        """The end of a log, which goes with the folder."""
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-20:]) or "nothing"

    def end(self) -> None:
        """End all parts, the last first, and whatever they started; what does not end by itself is killed."""
        for process in reversed(self.processes.values()):
            family = _family(process.pid)
            if process.stdin:
                process.stdin.close()  # which every part takes as its end
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
            for member in [*family, *_session(process.pid)]:
                with suppress(psutil.NoSuchProcess):
                    member.kill()
            process.wait()
            psutil.wait_procs(family, timeout=GRACE)
            if process.stdout:
                process.stdout.close()
        for log in self._logs:
            log.close()

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def _family(pid: int) -> list[psutil.Process]:
    """A process and all that it started."""
    with suppress(psutil.NoSuchProcess):
        return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return []


def _session(leader: int) -> list[psutil.Process]:
    """What is left of a part's session: its orphans too."""
    members = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.Error):
            if os.getsid(process.pid) == leader:
                members.append(process)
    return members


def interruptible() -> None:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt: a shell starts what it leaves in the background deaf to the
    first, and Python does nothing about the second."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
