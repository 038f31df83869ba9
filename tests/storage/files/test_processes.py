"""Whether the process that wrote something still works, though ids are given again."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from vitalfew.storage.files import is_alive, this_process

CODE = "from vitalfew.storage.files import this_process; print(this_process(), flush=True); input()"


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process, and what it calls itself."""
    with subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout
        yield it, it.stdout.readline().strip()
        it.kill()


def test_a_process_is_alive_until_it_is_killed(other: tuple[subprocess.Popen[str], str]) -> None:
    process, name = other
    assert name != this_process()
    assert is_alive(name)
    assert is_alive(this_process())
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has taken note of that
    assert not is_alive(name)
    process.wait()
    assert not is_alive(name)


def test_another_process_with_the_same_id_is_another() -> None:
    pid = os.getpid()
    assert this_process().startswith(f"{pid}-")
    assert not is_alive(f"{pid}-0123456789")
    assert is_alive(str(pid))  # as older versions wrote it
    assert not is_alive("9" * 30)


def test_a_fork_has_a_name_of_its_own() -> None:
    read, write = os.pipe()
    own = this_process()
    child = os.fork()
    if not child:
        os.write(write, this_process().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode().partition("-")[0] == str(child) != own.partition("-")[0]
    os.close(read)
    os.close(write)
