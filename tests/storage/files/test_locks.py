"""Locks: who holds one, and what becomes of it when a process is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from vitalfew.storage import files

FORKS = """
import os, sys, time
from pathlib import Path
from vitalfew.storage import files
with files.locked(Path({lock!r})):
    if not os.fork():
        print(os.getpid(), flush=True)
    time.sleep(60)
"""


def is_free(lock: Path) -> bool:
    with files.locked(lock, wait=False) as held:
        return held


def test_a_fork_of_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", FORKS.format(lock=str(lock))], stdout=subprocess.PIPE) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        try:
            assert not is_free(lock)
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert psutil.pid_exists(child)
            assert is_free(lock)
        finally:
            os.kill(child, signal.SIGKILL)
