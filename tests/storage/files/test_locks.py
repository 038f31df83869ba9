"""Locks: who holds one, and what becomes of it when its process is killed, or its file removed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from vitalfew.storage import files

FORKS = """
import os, sys, time
from pathlib import Path
from vitalfew.storage import files
with files.locked(Path(sys.argv[1])):
    if not os.fork():
        print(os.getpid(), flush=True)
    time.sleep(60)
"""
WAITS = """
import sys
from pathlib import Path
from vitalfew.storage import files
with files.locked(Path(sys.argv[1])):
    print(files.exists(Path(sys.argv[1])))
"""


def is_free(lock: Path) -> bool:
    with files.locked(lock, wait=False) as held:
        assert files.is_locked(lock)
        return held


def test_a_fork_of_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", FORKS, str(lock)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        try:
            assert not is_free(lock)
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert psutil.pid_exists(child)
            assert not files.is_locked(lock)
            assert is_free(lock)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_lock_whose_file_its_holder_removed_is_taken_anew(tmp_path: Path) -> None:
    """Who waits for it would else hold a file that nobody sees."""
    lock = tmp_path / "lock"
    with files.locked(lock):
        waiter = subprocess.Popen([sys.executable, "-c", WAITS, str(lock)], stdout=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            waiter.wait(2)
        files.remove(lock)
    out, _ = waiter.communicate(timeout=900)
    assert out == b"True\n"
