"""Whether the process that wrote something still works: known where its id counts as it does here, and nowhere else."""

import os
import subprocess
import sys

import pytest

from tests.support.namespaces import contained
from vitalfew.storage.files import has_ended, is_in_sight, this_process

CODE = """
import sys
from vitalfew.storage.files.processes import has_ended, is_in_sight, this_process
print(this_process(), *(known(sys.argv[-1]) for known in (is_in_sight, has_ended)), flush=True)
sys.stdin.read()
"""


def test_a_process_is_alive_until_it_is_killed() -> None:
    command = [sys.executable, "-c", CODE, this_process()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        name, *known = process.stdout.readline().split()
        assert known == ["True", "False"]
        assert name != this_process()
        assert is_in_sight(name)
        assert not has_ended(name)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has taken note of that
        assert has_ended(name)
    assert has_ended(name)


def test_another_process_with_the_same_id_is_another() -> None:
    place, pid, _ = this_process().split("-")
    assert pid == str(os.getpid())
    assert has_ended(f"{place}-{pid}-1")
    assert has_ended(f"{place}-{'9' * 30}-1")


@pytest.mark.parametrize("name", ["", "4194304", "0123456789ab-1-1"])
def test_of_another_place_or_version_nothing_is_known(name: str) -> None:
    assert not is_in_sight(name)
    assert not has_ended(name)


def test_a_container_and_its_host_know_nothing_of_each_other() -> None:
    """Both have the same host name; ids of the one are no ids of the other, or another process's."""
    output = subprocess.run(contained(CODE, this_process()), stdout=subprocess.PIPE, text=True, input="").stdout
    name, *known = output.split()
    assert known == ["False", "False"]
    assert not is_in_sight(name)
    assert not has_ended(name)
